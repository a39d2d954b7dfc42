// Initial values: a function of the seed, the logical name and the global index, so that every layout starts
// from the same bits (CASES B013).
#pragma once
#include "nn/executor.h"
#include "spec/model/parameter_table.h"

namespace muster::nn {

// Fills `value`, the whole of a logical parameter. fp64 holds the fp32 numbers.
void initialize(Executor& run, at::Tensor value, const spec::ParameterRow& row, uint64_t seed);

}  // namespace muster::nn
