// A seam for tests: makes one rank fail at a chosen place, as the world would. From the environment alone, so
// that no job carries it:
//
//   MUSTER_FAULT="rank=3,step=2,phase=backward,action=exit:17"
//
// `phase` is a name of launch/progress.h (without it: the first that the step comes to). Actions:
//   exit:CODE       leaves at once with CODE
//   kill            SIGKILL to itself
//   stop            SIGSTOP to itself: alive, silent
//   throw           an exception, as a bug would be
//   ignore-sigterm  goes on, deaf to SIGTERM
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "launch/environment.h"
#include "launch/progress.h"

namespace muster::launch {

class Fault {
 public:
  Fault() = default;  // never fires
  // The fault of this rank, if the variable names it. UserError(MUSTER_FAULT) for one that cannot be read.
  static Fault from(const Environment& environment, int64_t rank);

  // Called at every phase of every step; fires once.
  void at(Phase phase, int64_t step);

 private:
  struct Plan {
    int64_t step = 0;
    std::string phase, action;
    int code = 0;
  };
  static Plan parse(const std::string& text, int64_t& rank);
  std::optional<Plan> plan_;
};

}  // namespace muster::launch
