#include "comm/same_host/peer.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace muster::comm {

Peer::Peer(int process) : process_(process), pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))) {
  if (pidfd_ < 0)
    throw std::runtime_error(fmt::format("process {} is not there: {}", process, std::strerror(errno)));
}

Peer::Peer(Peer&& other) noexcept : process_(other.process_), pidfd_(std::exchange(other.pidfd_, -1)) {}

Peer::~Peer() {
  if (pidfd_ >= 0) ::close(pidfd_);
}

void Peer::read(void* to, uint64_t address, int64_t bytes) const {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const iovec own{out, static_cast<size_t>(bytes)};
    const iovec theirs{reinterpret_cast<void*>(address), static_cast<size_t>(bytes)};
    const ssize_t got = ::process_vm_readv(process_, &own, 1, &theirs, 1, 0);
    if (got <= 0)
      throw std::runtime_error(
          fmt::format("the memory of process {} cannot be read: {}", process_, std::strerror(errno)));
    out += got;
    address += static_cast<uint64_t>(got);
    bytes -= got;
  }
}

bool Peer::is_alive() const {
  pollfd ended{pidfd_, POLLIN, 0};
  return ::poll(&ended, 1, 0) == 0;
}

}  // namespace muster::comm
