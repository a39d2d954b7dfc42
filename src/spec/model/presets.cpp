// Public dense models. Sources: the config.json that each model's owner published beside its weights; counts
// are checked in presets_test.cpp.
#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "spec/model/model.h"

namespace muster::spec {
namespace {

struct Preset {
  std::string_view name;
  Family family;
  int64_t layers, hidden, heads, kv_heads, intermediate, vocab, positions;
  double eps = 1e-5;
  double theta = 10000;
  bool tied = false;
  bool bias = false;
  double llama3_factor = 0;  // of rope_scaling "llama3" over 8192 positions; 0: no scaling
};

constexpr Preset gpt2(std::string_view name, int64_t layers, int64_t hidden, int64_t heads,
                      int64_t vocab = 50257, int64_t positions = 1024) {
  return {.name = name,
          .family = Family::gpt2,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = heads,
          .intermediate = 4 * hidden,
          .vocab = vocab,
          .positions = positions,
          .tied = true};
}

// What one release of a Llama-shaped family has in common.
struct Release {
  int64_t vocab, positions;
  double eps = 1e-5;
  double theta = 10000;
  bool tied = false;
  bool bias = false;
  double llama3_factor = 0;
};

constexpr Preset llama(std::string_view name, Release release, int64_t layers, int64_t hidden, int64_t heads,
                       int64_t kv_heads, int64_t intermediate) {
  return {name,
          Family::llama,
          layers,
          hidden,
          heads,
          kv_heads,
          intermediate,
          release.vocab,
          release.positions,
          release.eps,
          release.theta,
          release.tied,
          release.bias,
          release.llama3_factor};
}

constexpr Release kLlama1{.vocab = 32000, .positions = 2048, .eps = 1e-6};
constexpr Release kLlama1Largest{.vocab = 32000, .positions = 2048};
constexpr Release kLlama2{.vocab = 32000, .positions = 4096};
constexpr Release kLlama3{.vocab = 128256, .positions = 8192, .theta = 500000};
constexpr Release kLlama31{.vocab = 128256, .positions = 131072, .theta = 500000, .llama3_factor = 8};
constexpr Release kLlama32{
    .vocab = 128256, .positions = 131072, .theta = 500000, .tied = true, .llama3_factor = 32};
constexpr Release kTinyLlama{.vocab = 32000, .positions = 2048};
constexpr Release kSmolLm2{.vocab = 49152, .positions = 8192, .theta = 100000, .tied = true};
constexpr Release kSmolLm2Largest{.vocab = 49152, .positions = 8192, .theta = 130000, .tied = true};
constexpr Release kMistral02{.vocab = 32000, .positions = 32768, .theta = 1e6};
constexpr Release kMistral03{.vocab = 32768, .positions = 32768, .theta = 1e6};
constexpr Release kQwen25Small{
    .vocab = 151936, .positions = 32768, .eps = 1e-6, .theta = 1e6, .tied = true, .bias = true};
constexpr Release kQwen25{.vocab = 152064, .positions = 131072, .eps = 1e-6, .theta = 1e6, .bias = true};
constexpr Release kQwen25Middle{.vocab = 152064, .positions = 131072, .theta = 1e6, .bias = true};

// gpt3-175b and mt-nlg-530b are the dense models that Megatron-LM measures under these names (vocabulary
// padded to 51200); OpenAI's own GPT-3 alternates dense and banded attention.
constexpr Preset kPresets[] = {
    gpt2("gpt2-124m", 12, 768, 12),
    gpt2("gpt2-355m", 24, 1024, 16),
    gpt2("gpt2-774m", 36, 1280, 20),
    gpt2("gpt2-1.5b", 48, 1600, 25),
    gpt2("gpt3-175b", 96, 12288, 96, 51200, 2048),
    gpt2("mt-nlg-530b", 105, 20480, 128, 51200, 2048),
    llama("llama1-7b", kLlama1, 32, 4096, 32, 32, 11008),
    llama("llama1-13b", kLlama1, 40, 5120, 40, 40, 13824),
    llama("llama1-30b", kLlama1, 60, 6656, 52, 52, 17920),
    llama("llama1-65b", kLlama1Largest, 80, 8192, 64, 64, 22016),
    llama("llama2-7b", kLlama2, 32, 4096, 32, 32, 11008),
    llama("llama2-13b", kLlama2, 40, 5120, 40, 40, 13824),
    llama("llama2-70b", kLlama2, 80, 8192, 64, 8, 28672),
    llama("llama3-8b", kLlama3, 32, 4096, 32, 8, 14336),
    llama("llama3-70b", kLlama3, 80, 8192, 64, 8, 28672),
    llama("llama3.1-8b", kLlama31, 32, 4096, 32, 8, 14336),
    llama("llama3.1-70b", kLlama31, 80, 8192, 64, 8, 28672),
    llama("llama3.1-405b", kLlama31, 126, 16384, 128, 8, 53248),
    llama("llama3.2-1b", kLlama32, 16, 2048, 32, 8, 8192),
    llama("llama3.2-3b", kLlama32, 28, 3072, 24, 8, 8192),
    llama("tinyllama-1.1b", kTinyLlama, 22, 2048, 32, 4, 5632),
    llama("smollm2-135m", kSmolLm2, 30, 576, 9, 3, 1536),
    llama("smollm2-360m", kSmolLm2, 32, 960, 15, 5, 2560),
    llama("smollm2-1.7b", kSmolLm2Largest, 24, 2048, 32, 32, 8192),
    llama("mistral-7b-v0.2", kMistral02, 32, 4096, 32, 8, 14336),
    llama("mistral-7b-v0.3", kMistral03, 32, 4096, 32, 8, 14336),
    llama("qwen2.5-0.5b", kQwen25Small, 24, 896, 14, 2, 4864),
    llama("qwen2.5-3b", kQwen25Small, 36, 2048, 16, 2, 11008),
    llama("qwen2.5-7b", kQwen25, 28, 3584, 28, 4, 18944),
    llama("qwen2.5-14b", kQwen25Middle, 48, 5120, 40, 8, 13824),
    llama("qwen2.5-32b", kQwen25Middle, 64, 5120, 40, 8, 27648),
    llama("qwen2.5-72b", kQwen25, 80, 8192, 64, 8, 29568),
};

ModelSpec to_spec(const Preset& preset) {
  ModelSpec model;
  model.family = preset.family;
  model.vocab_size = preset.vocab;
  model.hidden_size = preset.hidden;
  model.num_hidden_layers = preset.layers;
  model.num_attention_heads = preset.heads;
  model.num_key_value_heads = preset.kv_heads;
  model.intermediate_size = preset.intermediate;
  model.max_position_embeddings = preset.positions;
  model.norm_eps = preset.eps;
  model.rope_theta = preset.theta;
  model.tie_word_embeddings = preset.tied;
  model.attention_bias = preset.bias;
  if (preset.llama3_factor > 0) {
    model.rope_scaling.type = "llama3";
    model.rope_scaling.factor = preset.llama3_factor;
  }
  complete(model);
  return model;
}

size_t shared_letters(std::string_view a, std::string_view b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

// The names that begin as `name` does, for as many letters as any does; all where none begins so.
std::string near_names(std::string_view name) {
  size_t most = 0;
  for (const Preset& preset : kPresets) most = std::max(most, shared_letters(name, preset.name));
  std::string names;
  for (const Preset& preset : kPresets)
    if (shared_letters(name, preset.name) == most)
      names += (names.empty() ? "" : ", ") + std::string(preset.name);
  return names;
}

}  // namespace

ModelSpec preset(const std::string& name) {
  for (const Preset& preset : kPresets)
    if (preset.name == name) return to_spec(preset);
  throw UserError({"model.preset", name, "no such preset", "near it: " + near_names(name)});
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

}  // namespace muster::spec
