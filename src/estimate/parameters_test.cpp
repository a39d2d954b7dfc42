// Parameter counts from dimensions, against every row of the reference table.
#include "estimate/parameters.h"

#include <gtest/gtest.h>

#include "estimate/reference_for_tests.h"
#include "spec/model/parameter_table.h"

namespace muster::estimate {
namespace {

TEST(Parameters, EveryPublishedModelToTheParameter) {
  int rows = 0, with_experts = 0;
  for (CsvRow& row : read_csv(reference("model_configs.csv"))) {
    SCOPED_TRACE(row["model"]);
    const ParameterCount count = count_parameters(dimensions_in(row));
    EXPECT_EQ(count.total(), row.integer("params_computed"));
    if (!row["params_active_computed"].empty()) {
      EXPECT_EQ(count.active(), row.integer("params_active_computed"));
      ++with_experts;
    }
    ++rows;
  }
  EXPECT_EQ(rows, 37);
  EXPECT_EQ(with_experts, 7);
}

TEST(Parameters, TheShortFormOfGpt) {
  Dimensions gpt;
  gpt.layers = 96;
  gpt.hidden = 12288;
  gpt.heads = gpt.kv_heads = 96;
  gpt.head_dim = 128;
  gpt.ffn = 49152;
  gpt.vocab = 51200;
  gpt.learned_positions = 2048;
  gpt.tied = gpt.qkv_bias = gpt.attention_output_bias = gpt.mlp_bias = gpt.norm_bias = true;
  gpt.gated = false;
  const int64_t h = 12288;
  EXPECT_EQ(count_parameters(gpt).total(), (51200 + 2048) * h + 96 * (12 * h * h + 13 * h) + 2 * h);
}

TEST(Parameters, TheFormulaAndTheParameterTableAgree) {
  for (spec::Family family : {spec::Family::llama, spec::Family::gpt2}) {
    spec::ModelSpec model;
    model.family = family;
    model.vocab_size = 1003;
    model.hidden_size = 64;
    model.num_hidden_layers = 3;
    model.num_attention_heads = 4;
    model.num_key_value_heads = family == spec::Family::llama ? 2 : 4;
    model.head_dim = 16;
    model.intermediate_size = 172;
    model.max_position_embeddings = 128;
    model.tie_word_embeddings = family == spec::Family::gpt2;
    model.attention_bias = family == spec::Family::llama;
    EXPECT_EQ(count_parameters(dimensions_of(model)).total(), spec::ParameterTable(model).elements());
  }
}

}  // namespace
}  // namespace muster::estimate
