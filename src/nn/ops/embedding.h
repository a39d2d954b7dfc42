// Token and position embeddings.
#pragma once
#include "nn/executor.h"
#include "nn/weight.h"

namespace muster::nn {

// out_NH = token[ids_N] (+ position[row mod length] where `position` is given). ids are int32.
void embed(Executor& run, at::Tensor out_NH, const at::Tensor& ids_N, const Weight& token,
           const Weight* position, int64_t length);
void embed_backward(Executor& run, const at::Tensor& dy_NH, const at::Tensor& ids_N, Weight& token,
                    Weight* position, int64_t length);

}  // namespace muster::nn
