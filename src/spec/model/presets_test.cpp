#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "spec/model/parameter_table.h"

namespace muster::spec {
namespace {

// Fields of one CSV line: commas divide them except between double quotes.
std::vector<std::string> split_csv(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (char c : line) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) fields.emplace_back();
    if (c != '"' && (c != ',' || quoted)) fields.back() += c;
  }
  return fields;
}

using CsvRow = std::map<std::string, std::string>;

std::map<std::string, CsvRow> reference_models() {
  std::istringstream text(read_text(SOURCE_ROOT "/../shared/reference/model_configs.csv"));
  std::string line;
  std::getline(text, line);
  const std::vector<std::string> header = split_csv(line);
  std::map<std::string, CsvRow> models;
  while (std::getline(text, line)) {
    const std::vector<std::string> fields = split_csv(line);
    CsvRow row;
    for (size_t column = 0; column < header.size(); ++column) row[header[column]] = fields.at(column);
    models[fields.at(0)] = row;
  }
  return models;
}

struct Twin {
  const char* preset;
  const char* csv;
};
constexpr Twin kTwins[] = {
    {"gpt2-124m", "gpt2-124M"},   {"gpt2-355m", "gpt2-355M"},     {"gpt2-774m", "gpt2-774M"},
    {"gpt2-1.5b", "gpt2-1.5B"},   {"gpt3-175b", "gpt3-175b"},     {"mt-nlg-530b", "mt-nlg-530b"},
    {"llama2-7b", "llama2-7b"},   {"llama2-13b", "llama2-13b"},   {"llama2-70b", "llama2-70b"},
    {"llama3-8b", "llama3-8b"},   {"llama3-70b", "llama3-70b"},   {"llama3.1-405b", "llama3.1-405b"},
    {"qwen2.5-7b", "qwen2.5-7b"}, {"qwen2.5-72b", "qwen2.5-72b"},
};

// Rows of the reference that are no preset, and why.
constexpr std::pair<const char*, const char*> kOutOfScope[] = {
    {"mistral-7b", "sliding window of 4096; the releases without one are presets"},
    {"mixtral", "experts"},
    {"qwen3", "experts, norms on queries and keys"},
    {"gpt-oss", "experts, attention sinks"},
    {"deepseek", "experts, latent attention"},
    {"gpt-neox", "attention and FFN side by side, rotary on a quarter of the head"},
    {"bloom", "ALiBi positions"},
    {"mpt", "benchmark variants with exact GELU"},
    {"nanotron", "rotary base and epsilon not published; counts leave the norms out"},
};

TEST(Presets, DimensionsAndCountsEqualTheReference) {
  const std::map<std::string, CsvRow> models = reference_models();
  for (const Twin& twin : kTwins) {
    SCOPED_TRACE(twin.preset);
    const ModelSpec model = preset(twin.preset);
    const CsvRow& row = models.at(twin.csv);
    const auto integer = [&](const char* column) { return std::stoll(row.at(column)); };
    EXPECT_EQ(ParameterTable(model).elements(), integer("params_computed"));
    EXPECT_EQ(model.num_hidden_layers, integer("layers"));
    EXPECT_EQ(model.hidden_size, integer("hidden"));
    EXPECT_EQ(model.num_attention_heads, integer("heads"));
    EXPECT_EQ(model.num_key_value_heads, integer("kv_heads"));
    EXPECT_EQ(model.head_dim, integer("head_dim"));
    EXPECT_EQ(model.intermediate_size, integer("ffn_hidden"));
    EXPECT_EQ(model.vocab_size, integer("vocab"));
    EXPECT_EQ(model.max_position_embeddings, integer("max_position"));
    EXPECT_EQ(model.tie_word_embeddings, row.at("tied_embeddings") == "True");
    EXPECT_EQ(model.norm_eps, std::stod(row.at("norm_eps")));
    EXPECT_EQ(model.rope_theta, row.at("rope_theta").empty() ? 10000 : std::stod(row.at("rope_theta")));
  }
}

TEST(Presets, EveryRowOfTheReferenceIsAPresetOrOutOfScope) {
  for (const auto& [name, row] : reference_models()) {
    const auto is_twin = [&](const Twin& twin) { return name == twin.csv; };
    const auto is_out = [&](const auto& entry) { return name.starts_with(entry.first); };
    EXPECT_EQ(std::ranges::count_if(kTwins, is_twin) + std::ranges::count_if(kOutOfScope, is_out), 1) << name;
  }
}

// Counts of models that the reference has not, as their owners' safetensors indices state them.
TEST(Presets, CountsOfTheOthers) {
  const std::map<std::string, int64_t> published = {
      {"llama1-7b", 6738415616},       {"llama1-13b", 13015864320},     {"llama1-30b", 32528943616},
      {"llama1-65b", 65285660672},     {"llama3.1-8b", 8030261248},     {"llama3.1-70b", 70553706496},
      {"llama3.2-1b", 1235814400},     {"llama3.2-3b", 3212749824},     {"tinyllama-1.1b", 1100048384},
      {"smollm2-135m", 134515008},     {"smollm2-360m", 361821120},     {"smollm2-1.7b", 1711376384},
      {"mistral-7b-v0.2", 7241732096}, {"mistral-7b-v0.3", 7248023552}, {"qwen2.5-0.5b", 494032768},
      {"qwen2.5-3b", 3085938688},      {"qwen2.5-14b", 14770033664},    {"qwen2.5-32b", 32763876352},
  };
  for (const std::string& name : preset_names()) {
    if (std::ranges::any_of(kTwins, [&](const Twin& twin) { return name == twin.preset; })) continue;
    ASSERT_TRUE(published.contains(name)) << name << " has no count to be checked against";
    EXPECT_EQ(ParameterTable(preset(name)).elements(), published.at(name)) << name;
  }
}

TEST(Presets, UnknownNameIsAnsweredWithNearOnes) {
  try {
    preset("llama3.1-7b");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "model.preset = llama3.1-7b: no such preset; near it: llama3.1-70b");
  }
}

}  // namespace
}  // namespace muster::spec
