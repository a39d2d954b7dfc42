// Proof: what several ranks hold alike is alike, to the bit.
#pragma once
#include "spec/config/job.h"
#include "verify/check.h"
#include "verify/witness.h"

namespace muster::verify {

// One check a parameter and axis: its gradient, its value after the update and after two steps of the job's
// own optimizer are the same on all ranks of each group of that axis, as each rank sees the whole.
std::vector<Check> replicas(const spec::Job& job, const std::vector<Witness>& ranks);

}  // namespace muster::verify
