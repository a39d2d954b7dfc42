// Attention by heads over sequences of one length, with grouped key and value heads, from one fused buffer. B
// sequences, S rows of each here, Q query heads, K key/value heads, D elements a head; a row of qkv_NE is [Q
// query heads, K key heads, K value heads], N = B S, E = (Q + 2 K) D. Which scores there are, blocks say
// (spec/mesh/sequence_split.h): nothing is computed outside of them.
#pragma once
#include "nn/executor.h"
#include "nn/positions.h"

namespace muster::nn {

struct HeadShape {
  int64_t query_heads = 0, key_heads = 0, head_dim = 0;
  int64_t q_size() const { return query_heads * head_dim; }
  int64_t kv_size() const { return key_heads * head_dim; }
  int64_t row() const { return q_size() + 2 * kv_size(); }
};

// cos and sin of the angles of rotary positions, [L, D / 2] each, in the executor's format for statistics (Su
// et al. 2021, section 3.4.2).
struct RotaryTable {
  at::Tensor cos_LD, sin_LD;
  bool defined() const { return cos_LD.defined(); }
};

// Rotates the query and key heads of qkv in place, by the angles of where its rows stand or back.
void rotate(Executor& run, at::Tensor qkv_NE, const HeadShape& heads, const RotaryTable& table,
            const std::vector<RowRun>& rows, bool back = false);

struct AttentionOutput {
  at::Tensor out_NQ;   // [N, Q D]
  at::Tensor lse_BQS;  // log of the sum of exponentials of each query's scores, never in bfloat16
};

// softmax(q k^T / sqrt(D)) v without ever holding the scores (Dao et al. 2022, algorithm 1), over causal
// blocks that hold every row once.
AttentionOutput attention(Executor& run, const at::Tensor& qkv_NE, int64_t length, const HeadShape& heads,
                          const spec::Blocks& blocks);
// qkv becomes its gradient, of rotated queries and keys (Dao et al. 2022, algorithm 4).
void attention_backward(Executor& run, at::Tensor qkv_NE, const AttentionOutput& saved,
                        const at::Tensor& dout_NQ, int64_t length, const HeadShape& heads,
                        const spec::Blocks& blocks);

// The keys and values of other rows, kv_NK [N, 2 K D], join `result`, which has seen others before. What is
// bfloat16 is rounded once a call: out_NQ here, dq_NQ and dkv_NK below.
void attention_to(Executor& run, const AttentionOutput& result, const at::Tensor& qkv_NE,
                  const at::Tensor& kv_NK, int64_t length, const HeadShape& heads,
                  const spec::Blocks& blocks);
// dq_NQ += and dkv_NK += the gradients from these blocks; `saved` has seen all blocks.
void attention_to_backward(Executor& run, at::Tensor dq_NQ, at::Tensor dkv_NK, const at::Tensor& qkv_NE,
                           const at::Tensor& kv_NK, const AttentionOutput& saved, const at::Tensor& dout_NQ,
                           int64_t length, const HeadShape& heads, const spec::Blocks& blocks);

}  // namespace muster::nn
