// Several ranks on this host: starts them, watches them, and when one fails stops all, first cause first.
//
// Workers run this program again (/proc/self/exe), each in a process group of its own. They die with the
// launcher, however it ends. They meet in a file without a name that the launcher holds, so that jobs on one
// host share no port.
//
// When a worker fails: a short last call gathers the others that end with it; the first cause is the first of
// them that is not itself a consequence; the rest get SIGTERM, a grace, SIGKILL, and are reaped. A worker
// that ends well while others stay longer than `finish_grace` counts as failed. SIGINT and SIGTERM are passed
// on once; the second kills.
#pragma once
#include <chrono>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "base/log.h"

namespace muster::launch {

// A worker's exit status when what stopped it began elsewhere (WorldError::is_consequence).
constexpr int kExitConsequence = 75;
// The exit status of a process whose run another start has taken over (WorldError fenced).
constexpr int kExitFenced = 76;
// The exit status for what a worker's body threw: 2 a wrong request, 70 a bug, 75 a consequence, 76 fenced,
// else 1.
int exit_status(const std::exception& error);
// Leaves the process at once. A group with an operation under way would wait for it when destroyed, for as
// long as its timeout.
[[noreturn]] void leave(int status);

struct LocalRanksOptions {
  int threads = 0;  // of each worker; 0: the cores divided by the ranks
  std::chrono::milliseconds last_call{300};
  std::chrono::milliseconds grace{2'000};
  std::chrono::milliseconds finish_grace{30'000};
};

// Runs `ranks` workers with `arguments` (argv, the program's name first) until all have ended. Returns 0 when
// all did well, else the first cause's exit status (1 for a signal), or 128 + the signal that stopped the
// launcher. To be called on the main thread, before others start.
int run_local_ranks(int64_t ranks, const std::vector<std::string>& arguments, const Log& log,
                    const LocalRanksOptions& options = {});

}  // namespace muster::launch
