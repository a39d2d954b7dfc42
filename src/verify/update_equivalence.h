// Proof: the sharded run computes the same update as one process.
#pragma once
#include "spec/config/job.h"
#include "verify/check.h"
#include "verify/witness.h"

namespace muster::verify {

// How far two orders of the same sums may lie apart, relative to the sum. `summands` partial sums (ranks
// times micro-batches) of rounded terms, added in any order: at most summands * u * sum|x| in a first-order
// bound (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., section 4.2), u the unit
// roundoff; the terms themselves come from matrix products over other row counts, whose blocks add in other
// orders: taken as 64 more. Terms cancel: sum|x| is up to about 2 |sum x| for gradients at the start of
// training. fp32: 5.96e-8 * (summands + 64) * 2, so 8.1e-6 for 4; fp64: 1.5e-14.
// In bfloat16 (u = 2^-8) that bound is above a half and tells little. There every activation and its gradient
// is rounded as it is stored, about 12 of each a layer, and these roundings are independent: n of them add up
// to about sqrt(n) * u (Higham and Mary 2019, "A new approach to probabilistic rounding error analysis",
// theorem 2.4): 2^-8 * sqrt(24 * layers + summands + 64) * 2, so 0.084 for 4 and two layers.
double reduction_tolerance(const spec::Job& job, int64_t summands);

// Loss, pre-clip norm, every gradient by name, every parameter after one update of plain SGD. What fails by a
// factor says over which axis (diagnosis.h). A gradient's distance is measured against its own norm, or a
// hundredth of the whole gradient's where its own is smaller still (a key's bias has none but rounding:
// softmax does not see it).
std::vector<Check> update_equivalence(const spec::Job& job, const Witness& one_process,
                                      const std::vector<Witness>& ranks);

}  // namespace muster::verify
