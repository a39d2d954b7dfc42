// Initial values: a function of the seed, the logical name and the global index, so that every layout starts
// from the same bits (CASES B013).
#pragma once
#include "nn/executor.h"
#include "nn/parameters.h"
#include "spec/mesh/local_shape.h"

namespace muster::nn {

// Fills `piece`, contiguous, with the elements `range` of this part of a logical parameter, flattened. fp64
// holds the fp32 numbers.
void initialize(Executor& run, at::Tensor piece, const spec::ParameterRow& row, const spec::LocalPart& part,
                FlatRange range, uint64_t seed);

}  // namespace muster::nn
