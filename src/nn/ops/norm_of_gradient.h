// The sum of squares of the logical gradient.
#pragma once
#include "nn/executor.h"
#include "nn/parameters.h"
#include "nn/tensor_group.h"

namespace muster::nn {

// In fp64 and in a fixed order. What the group's ranks hold alike counts once, what they hold in parts as the
// sum of all parts: one message of 8 bytes, after one of 16 among those that share the state. The same on all
// ranks; 1 on `meta`. Collective over the group and the store's peers.
double sum_of_squares(Executor& run, const TensorGroup& group, const ParameterStore& parameters);

}  // namespace muster::nn
