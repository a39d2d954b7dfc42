// Muon's orthogonalisation: a matrix U S V^T becomes about U V^T.
#pragma once
#include "nn/executor.h"

namespace muster::train {

// Replaces a matrix by what Newton-Schulz's iteration makes of it in `steps` rounds, in its own format: the
// same singular vectors, and singular values that 5 rounds bring from [1e-2, 1] times the Frobenius norm to
// about [0.7, 1.2] (Jordan et al. 2024, "Muon", with their quintic). Zero stays zero. Takes two matrices as
// large and two squares of the shorter side as scratch (category temporary).
void orthogonalize(nn::Executor& run, const at::Tensor& matrix, int64_t steps);

// How much an error of the matrix, as a share of its norm, can grow in the result: the polynomial's steepest
// slope, at 0, once a round.
double orthogonalize_condition(int64_t steps);

}  // namespace muster::train
