#include "comm/gloo.h"

#include <csignal>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/error.h"

namespace muster::comm {

struct Gloo::Device {
  std::shared_ptr<::gloo::transport::Device> shared;
};

Gloo::Gloo(const std::string& address) : device_(std::make_unique<Device>()) {
  // Gloo writes to a lost peer without asking for an error code instead of a signal.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    device_->shared = c10d::ProcessGroupGloo::createDeviceForHostname(address);
  } catch (const std::exception& error) {
    throw WorldError(WorldError::Kind::device,
                     fmt::format("cannot listen for peers on {}: {}", address, error.what()));
  }
}
Gloo::~Gloo() = default;

c10::intrusive_ptr<c10d::Backend> Gloo::make(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                             std::chrono::milliseconds connect_timeout,
                                             std::chrono::milliseconds timeout) const {
  auto options = c10d::ProcessGroupGloo::Options::create(connect_timeout);
  options->devices = {device_->shared};
  // One thread runs a group's collectives in the order of their issue.
  options->threads = 1;
  auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  group->setTimeout(timeout);
  return group;
}

}  // namespace muster::comm
