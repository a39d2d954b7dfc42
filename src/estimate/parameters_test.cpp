// Parameter counts from dimensions, against every row of the reference table.
#include "estimate/parameters.h"

#include <gtest/gtest.h>

#include "estimate/csv_for_tests.h"
#include "spec/model/parameter_table.h"

namespace muster::estimate {
namespace {

const std::string kModels = SOURCE_ROOT "/../shared/reference/model_configs.csv";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Dimensions dimensions_in(CsvRow& row) {
  Dimensions d;
  d.layers = row.integer("layers");
  d.hidden = row.integer("hidden");
  d.heads = row.integer("heads");
  d.kv_heads = row.integer("kv_heads");
  d.head_dim = row.integer("head_dim");
  d.ffn = row.integer("ffn_hidden");
  d.vocab = row.integer("vocab");
  d.learned_positions = row["pos_embedding"] == "learned" ? row.integer("max_position") : 0;
  d.tied = row["tied_embeddings"] == "True";
  d.gated = has(row["mlp_type"], "swiglu");
  d.qkv_bias = row["qkv_bias"] == "True";
  d.attention_output_bias = row["attn_out_bias"] == "True";
  d.mlp_bias = row["mlp_bias"] == "True";
  d.norm_bias = has(row["norm_type"], "LayerNorm");
  d.norms_counted = !has(row["compute_method"], "norms not counted");
  d.qk_norm = !row["qk_norm"].empty();
  d.embedding_norm = has(row["norm_type"], "embedding LayerNorm");
  d.attention_sinks = has(row["notes"], "attention sinks (one per head)");
  d.experts = {row.integer("n_experts"),          row.integer("top_k"),
               row.integer("shared_experts"),     row.integer("moe_ffn_hidden"),
               row.integer("first_dense_layers"), has(row["notes"], "router has a bias")};
  d.latent = {row.integer("mla_q_lora_rank"), row.integer("mla_kv_lora_rank"),
              row.integer("qk_nope_head_dim"), row.integer("qk_rope_head_dim"), row.integer("v_head_dim")};
  return d;
}

TEST(Parameters, EveryPublishedModelToTheParameter) {
  int rows = 0, with_experts = 0;
  for (CsvRow& row : read_csv(kModels)) {
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
