#include "nn/oracle.h"

#include <fmt/format.h>

#include <cmath>

namespace muster::nn {
namespace {

class Oracle {
 public:
  Oracle(const spec::ModelSpec& model, const Named& parameters) : m_(model), parameters_(parameters) {}

  at::Tensor logits(const at::Tensor& ids_BS) const {
    return m_.family == spec::Family::llama ? llama(ids_BS) : gpt2(ids_BS);
  }

 private:
  const at::Tensor& p(const std::string& name) const { return parameters_.at(name); }

  at::Tensor llama(const at::Tensor& ids_BS) const {
    at::Tensor x = at::embedding(p("model.embed_tokens.weight"), ids_BS);
    for (int64_t layer = 0; layer < m_.num_hidden_layers; ++layer) {
      const std::string at = fmt::format("model.layers.{}.", layer);
      x = x + llama_attention(rms(x, p(at + "input_layernorm.weight")), at + "self_attn.");
      const at::Tensor y = rms(x, p(at + "post_attention_layernorm.weight"));
      const at::Tensor gate = y.matmul(p(at + "mlp.gate_proj.weight").t());
      const at::Tensor up = y.matmul(p(at + "mlp.up_proj.weight").t());
      x = x + (gate * gate.sigmoid() * up).matmul(p(at + "mlp.down_proj.weight").t());
    }
    const std::string head = m_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
    return rms(x, p("model.norm.weight")).matmul(p(head).t());
  }

  at::Tensor rms(const at::Tensor& x, const at::Tensor& weight) const {
    return x / (x.square().mean(-1, true) + m_.norm_eps).sqrt() * weight;
  }

  at::Tensor llama_attention(const at::Tensor& x, const std::string& at) const {
    const auto project = [&](const char* which, int64_t heads) {
      at::Tensor y = x.matmul(p(at + which + "_proj.weight").t());
      if (m_.attention_bias) y = y + p(at + which + "_proj.bias");
      return by_heads(y, heads);
    };
    const int64_t repeats = m_.num_attention_heads / m_.num_key_value_heads;
    const at::Tensor q = turned(project("q", m_.num_attention_heads));
    const at::Tensor k = turned(project("k", m_.num_key_value_heads)).repeat_interleave(repeats, 1);
    const at::Tensor v = project("v", m_.num_key_value_heads).repeat_interleave(repeats, 1);
    return attend(q, k, v).matmul(p(at + "o_proj.weight").t());
  }

  at::Tensor by_heads(const at::Tensor& x_BSE, int64_t heads) const {
    return x_BSE.unflatten(2, {heads, -1}).transpose(1, 2);
  }

  // (x1 + i x2) e^(i angle), as complex numbers.
  at::Tensor turned(const at::Tensor& x_BHSD) const {
    const int64_t half = m_.head_dim / 2;
    const at::Tensor pair = at::arange(half, at::kDouble), position = at::arange(x_BHSD.size(2), at::kDouble);
    const at::Tensor angle =
        at::outer(position, at::exp(pair * (-2 * std::log(m_.rope_theta) / m_.head_dim)));
    const at::Tensor x = at::complex(x_BHSD.narrow(3, 0, half), x_BHSD.narrow(3, half, half));
    const at::Tensor y = x * at::polar(at::ones_like(angle), angle);
    return at::cat({at::real(y), at::imag(y)}, 3);
  }

  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) const {
    const int64_t length = q.size(2);
    const at::Tensor future = at::ones({length, length}, at::kBool).triu(1);
    const at::Tensor scores = q.matmul(k.transpose(2, 3)) / std::sqrt(m_.head_dim);
    const at::Tensor out_BHSD = scores.masked_fill(future, -INFINITY).softmax(-1).matmul(v);
    return out_BHSD.transpose(1, 2).flatten(2);
  }

  at::Tensor gpt2(const at::Tensor& ids_BS) const {
    at::Tensor x = at::embedding(p("transformer.wte.weight"), ids_BS) +
                   p("transformer.wpe.weight").narrow(0, 0, ids_BS.size(1));
    for (int64_t layer = 0; layer < m_.num_hidden_layers; ++layer) {
      const std::string at = fmt::format("transformer.h.{}.", layer);
      const auto qkv = conv1d(layer_norm(x, at + "ln_1"), at + "attn.c_attn").chunk(3, 2);
      const int64_t heads = m_.num_attention_heads;
      x = x + conv1d(attend(by_heads(qkv[0], heads), by_heads(qkv[1], heads), by_heads(qkv[2], heads)),
                     at + "attn.c_proj");
      x = x + conv1d(gelu(conv1d(layer_norm(x, at + "ln_2"), at + "mlp.c_fc")), at + "mlp.c_proj");
    }
    return layer_norm(x, "transformer.ln_f").matmul(p("transformer.wte.weight").t());
  }

  at::Tensor conv1d(const at::Tensor& x, const std::string& at) const {
    return x.matmul(p(at + ".weight")) + p(at + ".bias");
  }
  at::Tensor layer_norm(const at::Tensor& x, const std::string& at) const {
    const at::Tensor centered = x - x.mean(-1, true);
    return centered / (centered.square().mean(-1, true) + m_.norm_eps).sqrt() * p(at + ".weight") +
           p(at + ".bias");
  }
  at::Tensor gelu(const at::Tensor& x) const {
    return 0.5 * x * (1 + (std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))).tanh());
  }

  const spec::ModelSpec& m_;
  const Named& parameters_;
};

}  // namespace

at::Tensor oracle_logits(const spec::ModelSpec& model, const Named& parameters, const at::Tensor& ids_BS) {
  return Oracle(model, parameters).logits(ids_BS);
}

at::Tensor oracle_loss(const spec::ModelSpec& model, const Named& parameters, const at::Tensor& ids_BS,
                       const at::Tensor& targets_BS) {
  const at::Tensor logits = oracle_logits(model, parameters, ids_BS);
  const at::Tensor counted = targets_BS.ge(0);
  const at::Tensor chosen = logits.gather(2, targets_BS.clamp_min(0).unsqueeze(2)).squeeze(2);
  return ((logits.logsumexp(2) - chosen) * counted).sum();
}

}  // namespace muster::nn
