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
namespace {

constexpr int kEndMilliseconds = 200;

}  // namespace

Peer::Peer(int process, int64_t rank)
    : process_(process), pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))), rank_(rank) {
  if (pidfd_ < 0)
    throw std::runtime_error(fmt::format("process {} is not there: {}", process, std::strerror(errno)));
}

Peer::Peer(Peer&& other) noexcept
    : process_(other.process_), pidfd_(std::exchange(other.pidfd_, -1)), rank_(other.rank_) {}

Peer::~Peer() {
  if (pidfd_ >= 0) ::close(pidfd_);
}

void Peer::read(void* to, uint64_t address, int64_t bytes) const {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const iovec own{out, static_cast<size_t>(bytes)};
    const iovec theirs{reinterpret_cast<void*>(address), static_cast<size_t>(bytes)};
    const ssize_t got = ::process_vm_readv(process_, &own, 1, &theirs, 1, 0);
    if (got <= 0) fail_to_read(errno);
    out += got;
    address += static_cast<uint64_t>(got);
    bytes -= got;
  }
  if (!is_alive()) throw std::runtime_error(end());
}

// A process that ends loses its memory first and is known to have ended a moment later.
void Peer::fail_to_read(int error) const {
  if (ends_within(kEndMilliseconds)) throw std::runtime_error(end());
  throw std::runtime_error(fmt::format("the memory of process {} of rank {} cannot be read: {}", process_,
                                       rank_, std::strerror(error)));
}

std::string Peer::end() const {
  return fmt::format("process {} of rank {} has ended", process_, rank_);
}

bool Peer::is_alive() const {
  return !ends_within(0);
}

bool Peer::ends_within(int milliseconds) const {
  pollfd ended{pidfd_, POLLIN, 0};
  int ready = -1;
  do ready = ::poll(&ended, 1, milliseconds);
  while (ready < 0 && errno == EINTR);
  return ready != 0;
}

}  // namespace muster::comm
