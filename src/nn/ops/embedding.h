// Token and position embeddings; the token table may be split by rows over a tensor group.
#pragma once
#include "nn/executor.h"
#include "nn/tensor_group.h"
#include "nn/weight.h"

namespace muster::nn {

// out_MH = token[ids_N] (+ position[row mod length] where `position` is given). ids are int32. Ids of another
// rank's rows give zeros here, and the sum over the group makes the rows whole; each rank keeps its own where
// they are shared.
void embed(Executor& run, const TensorGroup& group, at::Tensor out_MH, const at::Tensor& ids_N,
           const Weight& token, const Weight* position, int64_t length);
void embed_backward(Executor& run, const TensorGroup& group, const at::Tensor& dy_MH, const at::Tensor& ids_N,
                    Weight& token, Weight* position, int64_t length);

}  // namespace muster::nn
