// How ranks of one host talk on CPUs: each reads what it is sent straight from the memory of the rank that
// sends it (process_vm_readv), once, with no socket between them.
#pragma once
#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace muster::comm {

struct SameHostOptions {
  std::chrono::milliseconds timeout{0};  // of each message
  bool has_a_core = false;               // each computing thread of this host (exchange.h)
};

// The backend among `names`, the group's global ranks; `rank` is this process's place in them. Null, on all
// ranks alike, where they are not on one host (kernel, process and network namespace, user), or may not read
// each other's memory. Collective over the group; `store` is the group's alone.
//
// A send or receive is over when its counterpart has come: a rank must not wait for a send to a rank that
// waits, before it receives, for one of its own.
c10::intrusive_ptr<c10d::Backend> connect_same_host(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const std::vector<int64_t>& names, int64_t rank,
                                                    const SameHostOptions& options);

}  // namespace muster::comm
