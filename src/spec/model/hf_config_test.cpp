#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "spec/model/model.h"

namespace muster::spec {
namespace {

using ::testing::HasSubstr;

// What is said of `text`, one line a problem; empty where it is accepted.
std::string complaint(const std::string& text) {
  try {
    from_hf_config(text, "c.json");
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

const Json kLlama = {{"model_type", "llama"},   {"vocab_size", 128256},       {"hidden_size", 4096},
                     {"num_hidden_layers", 32}, {"num_attention_heads", 32},  {"num_key_value_heads", 8},
                     {"hidden_act", "silu"},    {"intermediate_size", 14336}, {"attention_bias", false}};
const Json kGpt2 = {{"model_type", "gpt2"}, {"vocab_size", 50257}, {"n_embd", 768},
                    {"n_layer", 12},        {"n_head", 12},        {"activation_function", "gelu_new"}};

// `base` with one key set.
std::string with(Json base, const char* key, const Json& value) {
  base[key] = value;
  return base.dump();
}

TEST(HfConfig, EveryPresetComesBackAsItWent) {
  for (const std::string& name : preset_names())
    EXPECT_EQ(from_hf_config(to_hf_config(preset(name)), "c.json"), preset(name)) << name;
  ModelSpec linear = preset("llama3.2-1b");
  linear.rope_scaling = {.type = "linear", .factor = 2};
  linear.initializer_range = 0.01;
  EXPECT_EQ(from_hf_config(to_hf_config(linear), "c.json"), linear);
}

TEST(HfConfig, ReadsWhatLlamaReleasesSay) {
  // Llama 3.1 8B: the spelling of transformers 4.43 and that of transformers 5.
  const Json scaling = {{"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192},
                        {"rope_type", "llama3"}};
  Json old_style = kLlama, new_style = kLlama;
  old_style["rms_norm_eps"] = new_style["rms_norm_eps"] = 1e-5;
  old_style["max_position_embeddings"] = new_style["max_position_embeddings"] = 131072;
  old_style["rope_scaling"] = scaling;
  old_style["rope_theta"] = 500000.0;
  new_style["rope_parameters"] = scaling;
  new_style["rope_parameters"]["rope_theta"] = 500000.0;
  EXPECT_EQ(from_hf_config(old_style.dump(), "c.json"), preset("llama3.1-8b"));
  EXPECT_EQ(from_hf_config(new_style.dump(), "c.json"), preset("llama3.1-8b"));
}

TEST(HfConfig, MissingKeysMeanWhatTransformersMeans) {
  Json json = kLlama;
  json["num_key_value_heads"] = nullptr;
  const ModelSpec llama = from_hf_config(json.dump(), "c.json");
  EXPECT_EQ(llama.num_key_value_heads, 32);
  EXPECT_EQ(llama.norm_eps, 1e-6);
  EXPECT_EQ(llama.rope_theta, 10000);
  EXPECT_FALSE(llama.tie_word_embeddings);
  EXPECT_EQ(from_hf_config(kGpt2.dump(), "c.json"), preset("gpt2-124m"));
}

TEST(HfConfig, ReadsRotaryInEverySpelling) {
  for (const char* key : {"type", "rope_type"}) {
    const ModelSpec model =
        from_hf_config(with(kLlama, "rope_scaling", {{key, "linear"}, {"factor", 4}}), "c.json");
    EXPECT_EQ(model.rope_scaling.type, "linear") << key;
    EXPECT_EQ(model.rope_scaling.factor, 4) << key;
  }
  EXPECT_EQ(complaint(with(kLlama, "rope_scaling", {{"rope_type", "default"}})), "");
  EXPECT_EQ(complaint(with(kLlama, "rope_scaling", nullptr)), "");
  EXPECT_THAT(complaint(with(kLlama, "rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}})),
              HasSubstr("c.json: rope_scaling.rope_type = \"yarn\": must be default, linear or llama3"));
  EXPECT_THAT(complaint(with(kLlama, "rope_scaling", {{"type", "llama3"}, {"factor", 8}})),
              HasSubstr("rope_scaling.low_freq_factor: is missing"));
  EXPECT_THAT(complaint(with(kLlama, "rope_scaling", 8)), HasSubstr("must be an object or null"));
}

TEST(HfConfig, Qwen2HasBiasesOnQueriesKeysAndValues) {
  Json json = kLlama;
  json["model_type"] = "qwen2";
  json["use_sliding_window"] = false;
  json["sliding_window"] = 4096;
  EXPECT_TRUE(from_hf_config(json.dump(), "c.json").attention_bias);
  EXPECT_THAT(complaint(with(json, "use_sliding_window", true)), HasSubstr("sliding_window = 4096"));
  json["layer_types"] = {"full_attention", "sliding_attention"};
  EXPECT_THAT(complaint(json.dump()), HasSubstr("must all be full_attention"));
}

TEST(HfConfig, MistralIsALlamaUnlessItsWindowIsShort) {
  Json json = kLlama;
  json["model_type"] = "mistral";
  json["max_position_embeddings"] = 32768;
  EXPECT_EQ(complaint(with(json, "sliding_window", nullptr)), "");
  EXPECT_EQ(complaint(with(json, "sliding_window", 32768)), "");
  EXPECT_THAT(complaint(with(json, "sliding_window", 4096)), HasSubstr("must be null"));
  EXPECT_THAT(complaint(json.dump()), HasSubstr("sliding_window: is missing"))
      << "transformers takes 4096 where the key is left out";
}

TEST(HfConfig, RefusesWhatWouldChangeTheFunction) {
  const std::pair<const char*, Json> llama[] = {{"hidden_act", "gelu"},
                                                {"attention_bias", true},
                                                {"mlp_bias", true},
                                                {"partial_rotary_factor", 0.5},
                                                {"quantization_config", {{"bits", 4}}}};
  for (const auto& [key, value] : llama)
    EXPECT_THAT(complaint(with(kLlama, key, value)), HasSubstr("c.json: " + std::string(key) + " = ")) << key;
  const std::pair<const char*, Json> gpt2[] = {{"activation_function", "relu"},
                                               {"scale_attn_weights", false},
                                               {"scale_attn_by_inverse_layer_idx", true},
                                               {"add_cross_attention", true},
                                               {"tie_word_embeddings", false}};
  for (const auto& [key, value] : gpt2)
    EXPECT_THAT(complaint(with(kGpt2, key, value)), HasSubstr("c.json: " + std::string(key) + " = ")) << key;
  EXPECT_EQ(complaint(with(kLlama, "attention_dropout", 0.1)), "") << "no part of what the weights compute";
  EXPECT_THAT(complaint(R"({"model_type": "mamba"})"),
              HasSubstr("model_type = \"mamba\": must be llama, qwen2, mistral or gpt2"));
}

TEST(HfConfig, FindsEveryProblemOfAnUntrustedFile) {
  const std::string said = complaint(
      R"({"model_type": "llama", "vocab_size": "many", "hidden_size": 64.5, "num_hidden_layers": 18446744073709551615,
          "rms_norm_eps": [], "tie_word_embeddings": 1})");
  for (const char* line : {"c.json: vocab_size = \"many\": must be a whole number",
                           "c.json: hidden_size = 64.5: must be a whole",
                           "c.json: num_hidden_layers = 18446744073709551615: must be a whole",
                           "c.json: num_attention_heads: is missing", "c.json: intermediate_size: is missing",
                           "c.json: rms_norm_eps = []: must be a number",
                           "c.json: tie_word_embeddings = 1: must be true or false"})
    EXPECT_THAT(said, HasSubstr(line));
  EXPECT_THAT(complaint(with(kLlama, "num_attention_heads", 33)),
              HasSubstr("c.json: num_attention_heads = 33: must divide hidden_size = 4096"));
  EXPECT_THAT(complaint("[]"), HasSubstr("c.json: must hold one JSON object"));
  EXPECT_THAT(complaint(std::string(1000000, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(complaint("{\"model_type\": \"lla"), HasSubstr("not acceptable JSON"));
  EXPECT_THAT(complaint(R"({"rope_theta": 1e505})"), HasSubstr("not acceptable JSON"));
}

}  // namespace
}  // namespace muster::spec
