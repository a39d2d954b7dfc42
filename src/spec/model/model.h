// What a model is: its family and Hugging Face dimensions.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace muster::spec {

enum class Family { llama, gpt2 };

// Frequency scaling of rotary positions as Llama 3.1 configures it ("rope_type": "llama3").
struct RopeScaling {
  std::string type = "none";  // none | linear | llama3
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
  bool operator==(const RopeScaling&) const = default;
};

// Keys are Hugging Face's (llama naming for both families; the gpt2 names n_embd, n_layer, n_head,
// n_positions, n_inner, layer_norm_epsilon are read as their twins).
struct ModelSpec {
  Family family = Family::llama;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  // gpt2: equal to num_attention_heads
  int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  int64_t intermediate_size = 0;    // gpt2: 4 * hidden_size unless set
  int64_t max_position_embeddings = 2048;
  double norm_eps = 1e-5;  // rms_norm_eps | layer_norm_epsilon
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  bool tie_word_embeddings = false;  // gpt2: always
  bool attention_bias = false;       // llama with biased q, k, v (Qwen 2)
  double initializer_range = 0.02;

  int64_t q_size() const { return num_attention_heads * head_dim; }
  int64_t kv_size() const { return num_key_value_heads * head_dim; }
  bool operator==(const ModelSpec&) const = default;
};

std::string to_string(Family family);

// Fills what follows from the rest (head_dim, key/value heads, FFN, tying of gpt2); throws UserError with
// every rule broken (heads divide hidden, KV heads divide heads, sizes positive, head_dim even for rotary,
// ...). Fields are named "model.<key>".
void complete(ModelSpec& model);

// Named public models: dimensions from their published configurations. Throws UserError naming near names.
ModelSpec preset(const std::string& name);
std::vector<std::string> preset_names();

// config.json as Hugging Face writes it: llama, qwen2, mistral without a window, gpt2. `text` is untrusted;
// `name` is the file, for messages. The result is complete. Throws UserError with every key that is missing,
// malformed, or would change what the weights compute into something that muster does not compute.
ModelSpec from_hf_config(const std::string& text, const std::string& name);
// What transformers reads back as the same model. `dtype` ("bfloat16") is that of the weights beside it.
std::string to_hf_config(const ModelSpec& model, const std::string& dtype = "float32");

// FLOPs a token of one forward pass, by the convention of the report: a matmul m x k by k x n is 2mkn;
// attention counts causal pairs only (s+1)/2 a token; norms, rotary and softmax are left out. Model FLOPs of
// a training step are three times this (DESIGN section 5).
struct FlopsPerToken {
  double linear = 0;     // projections, FFN
  double attention = 0;  // QK^T and PV
  double head = 0;       // vocabulary projection
  double total() const { return linear + attention + head; }
};
FlopsPerToken forward_flops_per_token(const ModelSpec& model, int64_t sequence_length);

}  // namespace muster::spec
