// One rank of a training run, from its environment to its end: data, peers, the rank, the loop.
#pragma once
#include <optional>

#include "comm/communicator.h"
#include "launch/environment.h"
#include "train/loop.h"

namespace muster::train {

// Where a launcher on the same host writes when it was started, on the monotonic clock, in seconds.
constexpr const char* kStartedVariable = "MUSTER_STARTED";

struct RunOptions {
  std::optional<RunFolder> folder;                 // given to the reporting rank (rank 0)
  std::optional<telemetry::StepRecord> rehearsed;  // of this rank
  double model_flops = 0;                          // of one step, all ranks
  fs::path checkpoints;                            // where they are kept, the same on all ranks
  bool resume = false;                             // go on from the newest valid one
  bool check_collectives = false;                  // ranks compare each call before it runs
  launch::Environment environment;                 // for progress and faults
};

// `job` is resolved for world.size ranks and checked. Collective over the world. Returns the summary on rank
// 0.
telemetry::RunSummary run(const spec::Job& job, const comm::World& world, const RunOptions& options,
                          const Log& log);

// Everything that can be refused before any process exists, with the layout resolved for `world_size` ranks:
// rules between settings, data, weights, device. All problems together in one UserError.
void check(spec::Job& job, int64_t world_size);
// The same for going on from `checkpoints`: the newest valid one must be of this job on this layout,
// resolved.
void check_resume(const spec::Job& job, int64_t world_size, const fs::path& checkpoints);

}  // namespace muster::train
