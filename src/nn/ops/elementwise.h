// Sums of rows, biases, residual additions and dropout.
#pragma once
#include "base/random.h"
#include "nn/executor.h"
#include "nn/positions.h"
#include "nn/weight.h"

namespace muster::nn {

// x_NO += bias_O.
void add_bias(Executor& run, at::Tensor x_NO, const Weight& bias);
// gradient [groups * size] = or += sums of rows of x_NS; row r belongs to group r % groups.
void sum_rows(Executor& run, Weight& weight, const at::Tensor& x_NS, int64_t groups);
// y += x.
void add_to(Executor& run, at::Tensor y, const at::Tensor& x);

// Where draws stand: the logical positions of the rows (they depend on the global sample, never on the rank),
// and the step. `rows` outlives this.
struct Dropout {
  double probability = 0;
  PhiloxKey key{};
  const std::vector<RowRun>* rows = nullptr;
  uint64_t draw = 0;
};
// out = x with elements dropped and the rest scaled by 1 / (1 - p); the same call again drops the same. out
// may be x.
void drop(Executor& run, at::Tensor out, const at::Tensor& x, const Dropout& dropout);

}  // namespace muster::nn
