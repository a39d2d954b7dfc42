#include "spec/model/model.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "spec/model/parameter_table.h"

namespace muster::spec {
namespace {

ModelSpec small_llama() {
  ModelSpec model;
  model.vocab_size = 512;
  model.hidden_size = 64;
  model.num_hidden_layers = 4;
  model.num_attention_heads = 4;
  model.num_key_value_heads = 2;
  model.intermediate_size = 176;
  return model;
}

// Fields of the problems that complete() finds, in order.
std::vector<std::string> broken_fields(ModelSpec model) {
  std::vector<std::string> fields;
  try {
    complete(model);
  } catch (const UserError& error) {
    for (const Problem& problem : error.problems()) {
      EXPECT_FALSE(problem.rule.empty());
      fields.push_back(problem.field);
    }
  }
  return fields;
}

using Fields = std::vector<std::string>;

TEST(Complete, FillsWhatFollows) {
  ModelSpec llama = small_llama();
  llama.num_key_value_heads = 0;
  complete(llama);
  EXPECT_EQ(llama.head_dim, 16);
  EXPECT_EQ(llama.num_key_value_heads, 4);
  EXPECT_FALSE(llama.tie_word_embeddings);

  ModelSpec gpt2 = small_llama();
  gpt2.family = Family::gpt2;
  gpt2.num_key_value_heads = gpt2.intermediate_size = 0;
  complete(gpt2);
  EXPECT_EQ(gpt2.intermediate_size, 256);
  EXPECT_EQ(gpt2.num_key_value_heads, 4);
  EXPECT_TRUE(gpt2.tie_word_embeddings);

  const ModelSpec once = gpt2;
  complete(gpt2);
  EXPECT_EQ(gpt2, once) << "completing twice changes nothing";
}

TEST(Complete, KeepsAHeadDimThatHiddenSizeDoesNotGive) {
  ModelSpec model = small_llama();
  model.head_dim = 32;
  complete(model);
  EXPECT_EQ(model.q_size(), 128);
  EXPECT_EQ(model.kv_size(), 64);
}

TEST(Complete, FindsEveryBrokenRuleAtOnce) {
  EXPECT_EQ(broken_fields(small_llama()), Fields{});

  ModelSpec empty;
  EXPECT_EQ(broken_fields(empty), (Fields{"model.vocab_size", "model.hidden_size", "model.num_hidden_layers",
                                          "model.num_attention_heads", "model.num_key_value_heads",
                                          "model.head_dim", "model.intermediate_size"}));

  ModelSpec heads = small_llama();
  heads.num_attention_heads = 6;
  heads.num_key_value_heads = 4;
  heads.norm_eps = 0;
  heads.rope_theta = -1;
  EXPECT_EQ(broken_fields(heads), (Fields{"model.num_attention_heads", "model.num_key_value_heads",
                                          "model.rope_theta", "model.norm_eps"}));

  ModelSpec odd = small_llama();
  odd.head_dim = 15;
  EXPECT_EQ(broken_fields(odd), Fields{"model.head_dim"});

  ModelSpec scaling = small_llama();
  scaling.rope_scaling = {.type = "llama3", .factor = 0.5, .low_freq_factor = 4, .high_freq_factor = 4};
  EXPECT_EQ(broken_fields(scaling),
            (Fields{"model.rope_scaling.factor", "model.rope_scaling.low_freq_factor"}));
  scaling.rope_scaling = {.type = "yarn", .factor = 4};
  EXPECT_EQ(broken_fields(scaling), Fields{"model.rope_scaling.type"});
}

TEST(Complete, RefusesInGpt2WhatHasNoEffectThere) {
  ModelSpec model = small_llama();
  model.family = Family::gpt2;
  model.head_dim = 32;
  model.attention_bias = true;
  model.rope_scaling.type = "linear";
  EXPECT_EQ(broken_fields(model), (Fields{"model.num_key_value_heads", "model.head_dim",
                                          "model.attention_bias", "model.rope_scaling.type"}));
}

TEST(Complete, BoundsDimensionsSoThatNoCountOverflows) {
  ModelSpec model = small_llama();
  model.hidden_size = int64_t{1} << 40;
  model.num_hidden_layers = -1;
  EXPECT_EQ(broken_fields(model), (Fields{"model.hidden_size", "model.num_hidden_layers", "model.head_dim"}));

  constexpr int64_t kWidest = int64_t{1} << 22;
  model = small_llama();
  model.family = Family::gpt2;
  model.vocab_size = int64_t{1} << 28;
  model.max_position_embeddings = int64_t{1} << 31;
  model.hidden_size = model.intermediate_size = model.num_attention_heads = kWidest;
  model.num_key_value_heads = kWidest;
  model.num_hidden_layers = 1;
  complete(model);
  const int64_t one_layer = ParameterTable(model).elements();
  model.num_hidden_layers = 2;
  const int64_t another_layer = ParameterTable(model).elements() - one_layer;
  EXPECT_LT(static_cast<double>(one_layer) + 0x1p14 * static_cast<double>(another_layer), 0x1p62);
}

TEST(Flops, B088LinearAndCausalAttentionByTheReportsConvention) {
  ModelSpec model;
  model.family = Family::gpt2;
  model.vocab_size = 1;
  model.hidden_size = 4096;
  model.num_hidden_layers = 32;
  model.num_attention_heads = 32;
  model.max_position_embeddings = 16384;
  complete(model);
  const FlopsPerToken forward = forward_flops_per_token(model, 16384);
  const double linear = 3 * forward.linear / 1e9, causal = 3 * forward.attention / 1e9;
  EXPECT_NEAR(linear, 38.65, 0.005);
  EXPECT_NEAR(causal, 12.88, 0.01);
  const double full = causal * 2 * 16384 / 16385;
  EXPECT_NEAR(full, 25.77, 0.005);
  EXPECT_NEAR((linear + full) / (linear + causal), 1.25, 0.001);
}

TEST(Flops, CountGroupedHeadsThreeFfnMatricesAndTheHead) {
  ModelSpec model = small_llama();
  complete(model);
  const FlopsPerToken flops = forward_flops_per_token(model, 7);
  EXPECT_EQ(flops.linear, 4 * 2.0 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 176));
  EXPECT_EQ(flops.attention, 4 * 4.0 * 64 * 4);  // 4 layers, 4 multiply-adds of 2, 64 wide, 4 pairs a token
  EXPECT_EQ(flops.head, 2.0 * 64 * 512);
  const double untied = flops.total();
  model.tie_word_embeddings = true;
  EXPECT_EQ(forward_flops_per_token(model, 7).total(), untied) << "a tied head is computed all the same";
}

}  // namespace
}  // namespace muster::spec
