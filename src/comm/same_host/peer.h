// Another rank's process on this host.
#pragma once
#include <cstdint>
#include <string>

namespace muster::comm {

class Peer {
 public:
  // `rank`: its global rank, as people know it.
  Peer(int process, int64_t rank);
  ~Peer();
  Peer(Peer&&) noexcept;
  Peer(const Peer&) = delete;

  // Fills `to` from the peer's memory; std::runtime_error where that cannot be read, or where the process has
  // ended since: its number may be another's by then, and so the memory.
  void read(void* to, uint64_t address, int64_t bytes) const;
  bool is_alive() const;
  int64_t rank() const { return rank_; }
  std::string end() const;  // that it has ended, in words

 private:
  [[noreturn]] void fail_to_read(int error) const;
  bool ends_within(int milliseconds) const;
  int process_, pidfd_;
  int64_t rank_;
};

}  // namespace muster::comm
