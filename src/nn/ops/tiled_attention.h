// Attention on the CPU as matrix products over tiles of one head's scores: a few rows of queries against all
// keys of a block that they see. One tile a thread is all the scratch there is, and where rows are bfloat16,
// copies in fp32 of what a thread works on: products, softmax and the sums over the heads that share a key
// are made in fp32, and what leaves is rounded once.
//
// Results are the same bits for any number of threads where the rows and keys of a block are multiples of 4.
// For others the matrix library adds products in an order that depends on whether a thread of several calls
// it (seen with MKL: inner sizes of 10 and 11).
#pragma once
#include "nn/ops/attention.h"

namespace muster::nn {

// out_NQ and lse_BQS from qkv_NE, which is not changed, over causal blocks that hold every row once.
void tiled_attention(const AttentionOutput& result, const at::Tensor& qkv_NE, int64_t length,
                     const HeadShape& heads, const spec::Blocks& blocks);
// qkv_NE becomes its gradient, of the rotated queries and keys.
void tiled_attention_backward(at::Tensor qkv_NE, const AttentionOutput& saved, const at::Tensor& dout_NQ,
                              int64_t length, const HeadShape& heads, const spec::Blocks& blocks);

// The keys and values of other rows join a result (see attention_to, attention_to_backward).
void tiled_attention_to(const AttentionOutput& result, const at::Tensor& qkv_NE, const at::Tensor& kv_NK,
                        int64_t length, const HeadShape& heads, const spec::Blocks& blocks);
void tiled_attention_to_backward(at::Tensor dq_NQ, at::Tensor dkv_NK, const at::Tensor& qkv_NE,
                                 const at::Tensor& kv_NK, const AttentionOutput& saved,
                                 const at::Tensor& dout_NQ, int64_t length, const HeadShape& heads,
                                 const spec::Blocks& blocks);

}  // namespace muster::nn
