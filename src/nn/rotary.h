// The angles of rotary positions.
#pragma once
#include "nn/ops/attention.h"
#include "spec/model/model.h"

namespace muster::nn {

// cos and sin for positions [0, length): theta^(-2i/D) per pair, scaled as the model says, computed in fp64.
// Empty for models without rotary positions.
RotaryTable make_rotary_table(Executor& run, const spec::ModelSpec& model, int64_t length);

}  // namespace muster::nn
