// Initial values: a function of the seed, the logical name and the global index, so that every layout starts
// from the same bits (CASES B013).
#pragma once
#include "nn/executor.h"
#include "spec/mesh/local_shape.h"

namespace muster::nn {

// Fills `value`, this part of a logical parameter. fp64 holds the fp32 numbers.
void initialize(Executor& run, at::Tensor value, const spec::ParameterRow& row, const spec::LocalPart& part,
                uint64_t seed);

}  // namespace muster::nn
