// How many parameters a transformer has, from its dimensions alone: dense, grouped-query, mixture-of-experts
// and latent-attention models. Exact integers.
// Sources: the published configurations (config.json) and their checkpoints; dense GPT in short form is
// Narayanan et al., "Efficient large-scale language model training", SC 2021, section 5.1, equation (2):
// 12 L h^2 (1 + 13/(12h) + (V + s)/(12 L h)), up to the last norm's 2h.
#pragma once
#include <cstdint>

#include "spec/model/model.h"

namespace muster::estimate {

// A routed feed-forward: `count` experts of which `active` see a token, and `shared` that see every token.
struct Experts {
  int64_t count = 0;
  int64_t active = 0;
  int64_t shared = 0;
  int64_t ffn = 0;           // width of one expert
  int64_t dense_layers = 0;  // leading layers that keep a dense feed-forward
  bool router_bias = false;
};

// Multi-head latent attention (DeepSeek-V2 report, 2024, section 2.1): keys and values rise from one latent.
struct LatentAttention {
  int64_t query_rank = 0;
  int64_t kv_rank = 0;   // 0: ordinary attention
  int64_t nope_dim = 0;  // of a head, without rotary
  int64_t rope_dim = 0;  // of a head, rotary; one for all heads on the key side
  int64_t value_dim = 0;
};

struct Dimensions {
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  int64_t learned_positions = 0;  // rows of a position table; 0: rotary or ALiBi
  bool tied = false;
  bool gated = true;  // SwiGLU: gate, up, down; else up, down
  bool qkv_bias = false, attention_output_bias = false, mlp_bias = false;
  bool norm_bias = false;     // LayerNorm: weight and bias; else RMSNorm: weight
  bool norms_counted = true;  // some published counts leave the norms out
  bool qk_norm = false;       // a norm per head on queries and keys
  bool embedding_norm = false;
  bool attention_sinks = false;  // one learned scalar a head
  Experts experts;
  LatentAttention latent;

  int64_t expert_layers() const { return experts.count > 0 ? layers - experts.dense_layers : 0; }
};

// Every parameter once, by what divides it: matrices of dense layers over tensor ranks; routed experts over
// expert ranks; norms, routers, sinks and position tables over nothing.
struct ParameterCount {
  int64_t embedding = 0;      // token table
  int64_t head = 0;           // 0 where it is the token table
  int64_t dense = 0;          // attention and dense or shared feed-forward matrices with their biases
  int64_t expert = 0;         // all routed experts
  int64_t active_expert = 0;  // those that one token passes
  int64_t replicated = 0;     // norms, routers, sinks, positions

  int64_t total() const { return embedding + head + dense + expert + replicated; }
  int64_t active() const { return embedding + head + dense + active_expert + replicated; }
};

ParameterCount count_parameters(const Dimensions& model);

Dimensions dimensions_of(const spec::ModelSpec& model);

}  // namespace muster::estimate
