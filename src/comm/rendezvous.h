// Where the ranks of a job find each other: one key-value store. It is scratch: nothing that must survive is
// kept in it. Ranks of one launcher on one host share a file, which has no port to collide on and no door for
// others; otherwise an agent or rank 0 serves it over TCP. That has no password, so it listens on the one
// address that the ranks were given.
#pragma once
#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/communicator.h"

namespace muster::comm {

struct HostedStore {
  c10::intrusive_ptr<c10d::Store> store;
  int port = 0;
};

// Starts the store's server in this process on `address`; port 0 takes a free one. WorldError(device) naming
// address and port where they cannot be bound.
HostedStore host_store(const std::string& address, int port, std::chrono::milliseconds timeout);

// The store of `world`, keys under its prefix. WorldError(timeout) naming host and port.
c10::intrusive_ptr<c10d::Store> join_store(const World& world, std::chrono::milliseconds timeout);

// Returns when all ranks of the world have called it; WorldError(timeout) naming those that did not.
void wait_for_all(c10d::Store& store, const World& world, std::chrono::milliseconds timeout);

}  // namespace muster::comm
