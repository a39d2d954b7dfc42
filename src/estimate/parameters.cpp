#include "estimate/parameters.h"

namespace muster::estimate {
namespace {

int64_t attention_matrices(const Dimensions& m) {
  const int64_t q = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
  const int64_t biases = (m.qkv_bias ? q + 2 * kv : 0) + (m.attention_output_bias ? m.hidden : 0);
  return m.hidden * q + 2 * m.hidden * kv + q * m.hidden + biases;
}

int64_t latent_matrices(const Dimensions& m) {
  const LatentAttention& a = m.latent;
  const int64_t query = m.hidden * a.query_rank + a.query_rank * m.heads * (a.nope_dim + a.rope_dim);
  const int64_t key_value =
      m.hidden * (a.kv_rank + a.rope_dim) + a.kv_rank * m.heads * (a.nope_dim + a.value_dim);
  return query + key_value + m.heads * a.value_dim * m.hidden;
}

int64_t feed_forward(const Dimensions& m, int64_t width) {
  const int64_t into = m.gated ? 2 : 1;
  const int64_t biases = m.mlp_bias ? into * width + m.hidden : 0;
  return (into + 1) * m.hidden * width + biases;
}

int64_t norm(const Dimensions& m) {
  return m.norms_counted ? m.hidden * (m.norm_bias ? 2 : 1) : 0;
}

int64_t replicated_in_layer(const Dimensions& m) {
  const int64_t latent_norms = m.latent.kv_rank > 0 ? m.latent.query_rank + m.latent.kv_rank : 0;
  return 2 * norm(m) + latent_norms + (m.qk_norm ? 2 * m.head_dim : 0) + (m.attention_sinks ? m.heads : 0);
}

int64_t router(const Dimensions& m) {
  return m.experts.count * (m.hidden + (m.experts.router_bias ? 1 : 0));
}

}  // namespace

ParameterCount count_parameters(const Dimensions& m) {
  const int64_t routed = m.expert_layers();
  const int64_t one_expert = feed_forward(m, m.experts.ffn);
  const int64_t attention = m.latent.kv_rank > 0 ? latent_matrices(m) : attention_matrices(m);
  ParameterCount count;
  count.embedding = m.vocab * m.hidden;
  count.head = m.tied ? 0 : m.vocab * m.hidden;
  count.dense = m.layers * attention + (m.layers - routed) * feed_forward(m, m.ffn) +
                routed * m.experts.shared * one_expert;
  count.expert = routed * m.experts.count * one_expert;
  count.active_expert = routed * m.experts.active * one_expert;
  count.replicated = m.layers * replicated_in_layer(m) + routed * router(m) + norm(m) +
                     m.learned_positions * m.hidden + (m.embedding_norm ? norm(m) : 0);
  return count;
}

Dimensions dimensions_of(const spec::ModelSpec& model) {
  const bool gpt2 = model.family == spec::Family::gpt2;
  Dimensions d;
  d.layers = model.num_hidden_layers;
  d.hidden = model.hidden_size;
  d.heads = model.num_attention_heads;
  d.kv_heads = model.num_key_value_heads;
  d.head_dim = model.head_dim;
  d.ffn = model.intermediate_size;
  d.vocab = model.vocab_size;
  d.learned_positions = gpt2 ? model.max_position_embeddings : 0;
  d.tied = model.tie_word_embeddings;
  d.gated = !gpt2;
  d.qkv_bias = gpt2 || model.attention_bias;
  d.attention_output_bias = d.mlp_bias = d.norm_bias = gpt2;
  return d;
}

}  // namespace muster::estimate
