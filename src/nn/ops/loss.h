// The vocabulary projection and its cross-entropy in one, over a few rows at a time, so that the logits of a
// micro-batch never exist as a whole.
#pragma once
#include "nn/executor.h"
#include "nn/tensor_group.h"
#include "nn/weight.h"

namespace muster::nn {

// Rows of logits that exist at one time: `asked`, or as many as fit in 32 MiB, evened out over the chunks.
int64_t loss_chunk_rows(int64_t rows, int64_t vocabulary, int64_t element_bytes, int64_t asked);

// The part of the vocabulary that this rank has: `ids` of them from first_id on. The last rows of its table
// may be padding, which takes no part in anything.
struct VocabularyPart {
  int64_t first_id = 0, ids = 0;
};

// Adds the sum of the losses of the targets_N >= 0 (int32) to loss_sum (fp64, one element). Losses are sums:
// the division by the global token count comes once, at the update. With dx_MH defined: dx = the gradient of
// the sum, and the weight's gradient is written too. The vocabulary may be split by rows over a tensor group:
// two small messages a chunk of rows (the largest logit; the sum of exponentials with the target's logit),
// and one for dx; where the group shares rows, each chunk of x is gathered while the one before is worked on,
// and its dx is summed beside the product for the weight. No rank sees another's logits. A gradient in
// bfloat16 is rounded once a chunk, as it is once a micro-batch: fp32 sums of a whole table would cost what
// its format saves.
void linear_cross_entropy(Executor& run, const TensorGroup& group, at::Tensor loss_sum, at::Tensor dx_MH,
                          const at::Tensor& x_MH, Weight& weight_VH, VocabularyPart part,
                          const at::Tensor& targets_N, int64_t chunk_rows);

}  // namespace muster::nn
