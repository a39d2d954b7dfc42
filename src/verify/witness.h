// What one rank saw: the evidence that the proofs compare. Taken by running the training program itself.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "comm/communicator.h"
#include "spec/config/job.h"
#include "telemetry/step_record.h"
#include "train/rank.h"

namespace muster::verify {

struct Witness {
  int64_t rank = 0;
  // One update by plain SGD (no momentum, no decay, no clipping) from biases and norms off their first
  // values, so that nothing hides a factor.
  double loss = 0, grad_norm = 0;
  int64_t tokens = 0;
  std::vector<at::Tensor> gradients;   // whole, means over the global batch; by row of the parameter table
  std::vector<at::Tensor> parameters;  // after the update
  // By row, what the job's own first update added to matrices that Muon updates; others are not defined.
  std::vector<at::Tensor> changes;
  // By row, of these as this rank sees the whole, its own part its own, and of the parameters after the job's
  // own two steps: all ranks must agree to the bit.
  std::vector<uint64_t> state_hashes;
  // The second step of the job as it stands.
  telemetry::StepRecord record;
};

// Where the tests of the proofs break the step whose update is witnessed.
struct Meddle {
  std::function<void(train::Rank&, std::string_view phase)> at = {};  // before each phase
  std::function<void(nn::Positions&)> positions = {};                 // of each micro-batch
};

// What update_equivalence() and replicas() read, but for the job's own optimizer. Collective over the world.
Witness testify_update(const spec::Job& job, const comm::World& world, const Meddle& meddle = {});
// Everything. Collective over the world. `check_collectives`: ranks compare each call before it runs.
Witness testify(const spec::Job& job, const comm::World& world, bool check_collectives = false);

// A witness as files of `folder`, from a worker to the process that compares. Tensors only for rank 0: the
// others' are the same to the bit, or the hash tells.
void write(const Witness& witness, const fs::path& folder);
Witness read(const fs::path& folder, int64_t rank, const spec::Job& job);

}  // namespace muster::verify
