// Muon's own update of the blocks' matrices, against one process. Plain SGD shows that gradients are right
// (update_equivalence.h); this shows that each matrix was whole when it was made orthogonal.
#pragma once
#include <vector>

#include "verify/check.h"
#include "verify/witness.h"

namespace muster::verify {

// The change of each matrix by the job's own first update. An error of a gradient grows by at most
// orthogonalize_condition() (optim/orthogonalize.h), to which the rounding of the updated values is added.
// Nothing under other optimizers.
std::vector<Check> matrix_update(const spec::Job& job, const Witness& one, const std::vector<Witness>& ranks);

}  // namespace muster::verify
