#include "comm/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/units.h"

namespace muster::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

constexpr milliseconds kRetryAfter{100};

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Addresses resolve(const std::string& host, int port, int type) {
  addrinfo hints{};
  hints.ai_socktype = type;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (status != 0)
    throw WorldError(WorldError::Kind::device,
                     fmt::format("cannot find host '{}' (port {}): {}", host, port, gai_strerror(status)));
  return {found, &freeaddrinfo};
}

// 0, or why not.
int connect_once(const addrinfo& address, milliseconds timeout) {
  Socket socket(::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.fd() < 0) return errno;
  if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd ready{socket.fd(), POLLOUT, 0};
  if (::poll(&ready, 1, static_cast<int>(timeout.count())) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof(error);
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

}  // namespace

Bound bind_to(const std::string& address, int port) {
  const Addresses found = resolve(address, port, SOCK_STREAM);
  Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (socket.fd() < 0 || ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(socket.fd(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(socket.fd(), SOMAXCONN) != 0)
    throw WorldError(WorldError::Kind::device,
                     fmt::format("cannot listen on {}:{}: {}", address, port, std::strerror(errno)));
  const int taken = port_of(socket.fd());
  return {socket.release(), taken};
}

void wait_for_listener(const std::string& host, int port, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  const Addresses found = resolve(host, port, SOCK_STREAM);
  for (;;) {
    int error = 0;
    for (const addrinfo* address = found.get(); address; address = address->ai_next) {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
      error = connect_once(*address, std::max(left, milliseconds(1)));
      if (error == 0) return;
    }
    if (steady_clock::now() + kRetryAfter > deadline)
      throw WorldError(
          WorldError::Kind::timeout,
          fmt::format("cannot reach {}:{} within {}: {}", host, port,
                      format_seconds(std::chrono::duration<double>(timeout).count()), std::strerror(error)));
    std::this_thread::sleep_for(kRetryAfter);
  }
}

std::string address_towards(const std::string& host) {
  const Addresses found = resolve(host, 9, SOCK_DGRAM);  // connecting UDP sends nothing
  Socket socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  char text[NI_MAXHOST] = {};
  if (socket.fd() < 0 || ::connect(socket.fd(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST))
    throw WorldError(WorldError::Kind::device,
                     fmt::format("no address of this host leads to {}: {}", host, std::strerror(errno)));
  return text;
}

}  // namespace muster::comm
