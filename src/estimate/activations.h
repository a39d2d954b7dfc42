// Activations that the backward pass needs, in bytes, at 2 bytes an element and 1 a dropout mask.
// Source: Korthikanti et al., "Reducing activation recomputation in large transformer models", MLSys 2023
// (arXiv 2205.05198), section 4.
// The paper's formulas are those of the classic GPT layer: as many key/value heads as heads, FFN of 4h with
// GeLU, dropout, attention scores kept. The Llama layer (grouped queries, SwiGLU, no dropout) is counted here
// in the same way. Fused attention keeps no scores: that is `selective`'s figure without its recomputation.
// 8-bit formats, fused SwiGLU and frameworks that keep copies change the constants: the rehearsal counts
// those.
#pragma once
#include <cstdint>

namespace muster::estimate {

enum class Recompute { none, selective, full };
const char* to_string(Recompute recompute);

struct LayerShape {
  int64_t sequence = 0, micro_batch = 0, hidden = 0, heads = 0;
  // The Llama layer, where given; 0: the classic one.
  int64_t query_width = 0, kv_width = 0, gated_ffn = 0;
  bool is_llama() const { return gated_ffn > 0; }
  int64_t tokens_times_hidden() const { return sequence * micro_batch * hidden; }
};

// The factor before s*b*h for one layer on one tensor rank.
//   none, tensor 1:              34 + 5as/h                 equation (1)
//   none, tensor t:              10 + 24/t + 5as/(ht)       equation (2)
//   none, tensor t + sequence:   (34 + 5as/h) / t           equation (4)
// For the Llama layer its own constants stand in the place of 10 and 24.
//   selective leaves out the term 5as/h                      section 5, table 2
//   full keeps the layer's input, 2; 2/t where sequence parallelism shards it   table 2
double activation_factor(const LayerShape& shape, int64_t tensor, bool sequence_parallel,
                         Recompute recompute);

// What a layer keeps beside the scores, in bytes per s*b*h: on every tensor rank whole unless sequence
// parallelism shards it (norms' inputs, inputs of the column-parallel matrices, dropout masks of the
// residual: 10; without dropout 8), and cut by tensor parallelism (classic 24; Llama (4q + 4kv + 8f)/h: q
// twice, k, v, gate, up, SiLU and their product).
double whole_factor(const LayerShape& shape);
double divided_factor(const LayerShape& shape);

// 5as/h: scores, their softmax and its dropout mask, as bytes per s*b*h; 4as/h without dropout (Llama).
double score_factor(const LayerShape& shape);

// Bytes of one layer for one micro-batch. Full recomputation leaves out the working set of the one layer that
// is being run again.
int64_t activation_bytes_per_layer(const LayerShape& shape, int64_t tensor, bool sequence_parallel,
                                   Recompute recompute);

// The last norm's and the head's inputs and the logits in 4 bytes: 4sbh/t (1 + V/h), section 4.3; on the last
// stage. Tensor ranks hold a slice of the vocabulary.
int64_t head_bytes(const LayerShape& shape, int64_t vocab, int64_t tensor);

// FLOPs that recomputation adds, as a share of the model's FLOPs (forward + backward = 3 forwards).
// Full runs the forward again: 1/3. Selective, as the paper counts it (appendix A, equations (7) and (8)):
// (s/6h) / (1 + s/6h + V/12hL); it charges the attention matmuls at forward and backward, so one extra
// forward of them alone is a third of this.
double recompute_flops_share(const LayerShape& shape, int64_t layers, int64_t vocab, Recompute recompute);

// Bytes of the score matrix B*H*L^2 that flash attention never stores (Dao et al., "FlashAttention", NeurIPS
// 2022, section 3): per layer, `bytes` an element.
int64_t score_matrix_bytes(int64_t batch, int64_t heads, int64_t sequence, int64_t bytes);

}  // namespace muster::estimate
