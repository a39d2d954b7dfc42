// The vocabulary projection and its cross-entropy in one, over a few rows at a time, so that the logits of a
// micro-batch never exist as a whole.
#pragma once
#include "nn/executor.h"
#include "nn/tensor_group.h"
#include "nn/weight.h"

namespace muster::nn {

// Rows of logits that exist at one time: `asked`, or as many as fit in 32 MiB, evened out over the chunks.
int64_t loss_chunk_rows(int64_t rows, int64_t vocabulary, int64_t element_bytes, int64_t asked);

// Adds the sum of the losses of the targets_N >= 0 (int32) to loss_sum (fp64, one element). Losses are sums:
// the division by the global token count comes once, at the update. With dx_NH defined: dx = the gradient of
// the sum, and the weight's gradient is written too. The vocabulary may be split by rows over a tensor group:
// two small messages a chunk of rows (the largest logit; the sum of exponentials with the target's logit),
// and one for dx. No rank sees another's logits.
void linear_cross_entropy(Executor& run, const TensorGroup& group, at::Tensor loss_sum, at::Tensor dx_NH,
                          const at::Tensor& x_NH, Weight& weight_VH, const at::Tensor& targets_N,
                          int64_t chunk_rows);

}  // namespace muster::nn
