// The sum of squares of the logical gradient.
#pragma once
#include "nn/executor.h"
#include "nn/parameters.h"

namespace muster::nn {

// Over every gradient that this rank holds, in fp64 and in a fixed order. 1 on `meta`.
double sum_of_squares(Executor& run, const ParameterStore& parameters);

}  // namespace muster::nn
