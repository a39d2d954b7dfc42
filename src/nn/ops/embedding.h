// Token and position embeddings; the token table may be split by rows over a tensor group.
#pragma once
#include "nn/executor.h"
#include "nn/positions.h"
#include "nn/tensor_group.h"
#include "nn/weight.h"

namespace muster::nn {

// out_NH = token[ids_N] (+ position[where the row stands] where `position` is given). ids are int32. Ids of another
// rank's rows give zeros here, and the sum over the group makes the rows whole.
void embed(Executor& run, const TensorGroup& group, at::Tensor out_NH, const at::Tensor& ids_N,
           const Weight& token, const Weight* position, const std::vector<RowRun>& rows);
void embed_backward(Executor& run, const TensorGroup& group, const at::Tensor& dy_NH, const at::Tensor& ids_N,
                    Weight& token, Weight* position, const std::vector<RowRun>& rows);

}  // namespace muster::nn
