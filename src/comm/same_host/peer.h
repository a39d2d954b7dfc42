// Another rank's process on this host.
#pragma once
#include <cstdint>

namespace muster::comm {

class Peer {
 public:
  explicit Peer(int process);
  ~Peer();
  Peer(Peer&&) noexcept;
  Peer(const Peer&) = delete;

  // Fills `to` from the peer's memory; std::runtime_error where that cannot be read.
  void read(void* to, uint64_t address, int64_t bytes) const;
  bool is_alive() const;
  int process() const { return process_; }

 private:
  int process_, pidfd_;
};

}  // namespace muster::comm
