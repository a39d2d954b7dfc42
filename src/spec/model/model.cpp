#include "spec/model/model.h"

#include <cmath>

#include "base/error.h"

namespace muster::spec {
namespace {

// Upper limits keep every product of dimensions, and their sum over all layers, inside 63 bits.
struct Dimension {
  const char* key;
  int64_t ModelSpec::*value;
  int64_t most;
};
constexpr int64_t kWidest = int64_t{1} << 22;
constexpr Dimension kDimensions[] = {
    {"vocab_size", &ModelSpec::vocab_size, int64_t{1} << 28},
    {"hidden_size", &ModelSpec::hidden_size, kWidest},
    {"num_hidden_layers", &ModelSpec::num_hidden_layers, int64_t{1} << 14},
    {"num_attention_heads", &ModelSpec::num_attention_heads, kWidest},
    {"num_key_value_heads", &ModelSpec::num_key_value_heads, kWidest},
    {"head_dim", &ModelSpec::head_dim, kWidest},
    {"intermediate_size", &ModelSpec::intermediate_size, kWidest},
    {"max_position_embeddings", &ModelSpec::max_position_embeddings, int64_t{1} << 31},
};

struct Rules {
  const ModelSpec& model;
  bool heads_fit;  // head_dim was given, or hidden_size / num_attention_heads is an integer
  Problems problems{};

  template <class Value>
  void require(bool holds, const char* key, Value value, std::string rule, std::string remedy) {
    if (!holds)
      problems.add(std::string("model.") + key, fmt::format("{}", value), std::move(rule), std::move(remedy));
  }

  // False when any is wrong: rules between dimensions then make no sense.
  bool dimensions() {
    for (const Dimension& dimension : kDimensions) {
      const int64_t value = model.*dimension.value;
      require(value >= 1 && value <= dimension.most, dimension.key, value,
              fmt::format("must be from 1 to {}", dimension.most),
              "set it to the model's size or start from a preset");
    }
    return problems.empty();
  }

  void heads() {
    require(heads_fit, "num_attention_heads", model.num_attention_heads,
            fmt::format("must divide hidden_size = {}", model.hidden_size),
            "choose a divisor, or set head_dim");
    require(model.num_attention_heads % model.num_key_value_heads == 0, "num_key_value_heads",
            model.num_key_value_heads,
            fmt::format("must divide num_attention_heads = {}", model.num_attention_heads),
            "choose a divisor; equal numbers mean no grouping");
    require(model.q_size() <= kWidest, "head_dim", model.head_dim,
            fmt::format("num_attention_heads * head_dim = {} must be at most {}", model.q_size(), kWidest),
            "use fewer or smaller heads");
  }

  void llama() {
    require(!heads_fit || model.head_dim % 2 == 0, "head_dim", model.head_dim,
            "must be even: rotary positions turn pairs", "choose an even head_dim");
    require(std::isfinite(model.rope_theta) && model.rope_theta > 0, "rope_theta", model.rope_theta,
            "must be a positive number", "10000 is usual");
    rope_scaling(model.rope_scaling);
  }

  void rope_scaling(const RopeScaling& scaling) {
    const bool linear = scaling.type == "linear", llama3 = scaling.type == "llama3";
    require(linear || llama3 || scaling.type == "none", "rope_scaling.type", scaling.type,
            "must be none, linear or llama3", "use one of these");
    require(std::isfinite(scaling.factor) && scaling.factor >= 1, "rope_scaling.factor", scaling.factor,
            "must be at least 1", "it is the ratio of the new context to the old");
    if (!llama3) return;
    require(std::isfinite(scaling.high_freq_factor) && scaling.low_freq_factor > 0 &&
                scaling.low_freq_factor < scaling.high_freq_factor,
            "rope_scaling.low_freq_factor", scaling.low_freq_factor,
            fmt::format("must be above 0 and below high_freq_factor = {}", scaling.high_freq_factor),
            "Llama 3.1 uses 1 and 4");
    require(scaling.original_max_position_embeddings >= 1, "rope_scaling.original_max_position_embeddings",
            scaling.original_max_position_embeddings, "must be at least 1", "Llama 3.1 uses 8192");
  }

  void gpt2() {
    require(model.num_key_value_heads == model.num_attention_heads, "num_key_value_heads",
            model.num_key_value_heads,
            fmt::format("must equal num_attention_heads = {} in gpt2", model.num_attention_heads),
            "leave it out");
    require(!heads_fit || model.q_size() == model.hidden_size, "head_dim", model.head_dim,
            fmt::format("times num_attention_heads = {} must be hidden_size = {} in gpt2",
                        model.num_attention_heads, model.hidden_size),
            "leave it out");
    require(!model.attention_bias, "attention_bias", model.attention_bias,
            "has no effect in gpt2, whose projections always have biases", "leave it out");
    require(model.rope_scaling.type == "none", "rope_scaling.type", model.rope_scaling.type,
            "has no effect in gpt2, whose positions are learned", "leave it out");
  }

  void numbers() {
    require(model.norm_eps > 0 && model.norm_eps < 1, "norm_eps", model.norm_eps, "must be above 0, below 1",
            "1e-5 is usual");
    require(model.initializer_range > 0 && model.initializer_range < 10, "initializer_range",
            model.initializer_range, "must be above 0, below 10", "0.02 is usual");
  }
};

void fill(ModelSpec& model) {
  const bool is_gpt2 = model.family == Family::gpt2;
  if (model.num_key_value_heads == 0) model.num_key_value_heads = model.num_attention_heads;
  if (model.head_dim == 0 && model.num_attention_heads > 0)
    model.head_dim = model.hidden_size / model.num_attention_heads;
  if (is_gpt2) model.tie_word_embeddings = true;
  if (is_gpt2 && model.intermediate_size == 0 && model.hidden_size <= kWidest)
    model.intermediate_size = 4 * model.hidden_size;
}

}  // namespace

std::string to_string(Family family) {
  return family == Family::gpt2 ? "gpt2" : "llama";
}

void complete(ModelSpec& model) {
  const bool heads_fit = model.head_dim != 0 || model.num_attention_heads < 1 ||
                         model.hidden_size % model.num_attention_heads == 0;
  fill(model);
  Rules rules{model, heads_fit};
  if (rules.dimensions()) {
    rules.heads();
    model.family == Family::gpt2 ? rules.gpt2() : rules.llama();
  }
  rules.numbers();
  rules.problems.throw_if_any();
}

}  // namespace muster::spec
