// Gloo: how ranks on CPUs talk. The one file behind this header knows its classes.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace muster::comm {

// Makes the groups of one process: they share one device (a listening socket and its thread).
class Gloo {
 public:
  // Binds to `address` of this host; WorldError(device) naming it where that cannot be. From then on
  // this process ignores SIGPIPE.
  explicit Gloo(const std::string& address);
  ~Gloo();

  // Collective over the group: connects all pairs within `connect_timeout`; later operations take at most
  // `timeout` each. `store` belongs to this group alone.
  c10::intrusive_ptr<c10d::Backend> make(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                         std::chrono::milliseconds connect_timeout,
                                         std::chrono::milliseconds timeout) const;

 private:
  struct Device;
  std::unique_ptr<Device> device_;
};

}  // namespace muster::comm
