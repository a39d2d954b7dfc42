// The few socket calls that the rendezvous needs. IPv4 and IPv6; every error names host and port.
#pragma once
#include <chrono>
#include <string>

namespace muster::comm {

// A listening address taken by this process. `fd` belongs to the caller.
struct Bound {
  int fd = -1;
  int port = 0;
};
// Binds (port 0: a free one) and listens. A port that was just in use may be bound again.
Bound bind_to(const std::string& address, int port);

// Returns once host:port accepts connections. WorldError(timeout) when it does not by then, saying why;
// WorldError(device) at once for a name that does not exist.
void wait_for_listener(const std::string& host, int port, std::chrono::milliseconds timeout);

// The address of this host from which `host` is reached.
std::string address_towards(const std::string& host);

}  // namespace muster::comm
