// Causal attention on the CPU as matrix products over tiles of one head's scores: a few rows of queries
// against all keys that they see. One tile a thread is all the scratch there is.
//
// Results are the same bits for any number of threads where the length is a multiple of 4. For others the
// matrix library adds products in an order that depends on whether a thread of several calls it (seen with
// MKL: inner sizes of 10 and 11).
#pragma once
#include "nn/ops/attention.h"

namespace muster::nn {

// out_NQ and lse_BQS from qkv_NE, which is not changed.
void tiled_attention(const AttentionOutput& result, const at::Tensor& qkv_NE, int64_t length,
                     const HeadShape& heads);
// qkv_NE becomes its gradient, of the rotated queries and keys.
void tiled_attention_backward(at::Tensor qkv_NE, const AttentionOutput& saved, const at::Tensor& dout_NQ,
                              int64_t length, const HeadShape& heads);

}  // namespace muster::nn
