#include "spec/model/parameter_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "spec/mesh/local_shape.h"

namespace muster::spec {
namespace {

// Sizes that differ, so that a swapped dim shows.
ModelSpec model_of(Family family) {
  ModelSpec model;
  model.family = family;
  model.vocab_size = 100;
  model.hidden_size = 24;
  model.num_hidden_layers = 2;
  model.num_attention_heads = 6;
  model.num_key_value_heads = family == Family::llama ? 2 : 0;
  model.intermediate_size = 40;
  model.max_position_embeddings = 50;
  complete(model);
  return model;
}

using Shape = std::vector<int64_t>;

std::map<std::string, Shape> shapes_of(const ModelSpec& model) {
  const ParameterTable table(model);
  std::map<std::string, Shape> shapes;
  for (const ParameterRow& row : table.rows())
    EXPECT_TRUE(shapes.emplace(row.name, row.shape).second) << row.name;
  return shapes;
}

TEST(ParameterTable, LlamaIsAsHuggingFaceStoresIt) {
  std::map<std::string, Shape> expected = {
      {"model.embed_tokens.weight", {100, 24}}, {"model.norm.weight", {24}}, {"lm_head.weight", {100, 24}}};
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    const std::string at = layer;
    expected[at + "input_layernorm.weight"] = {24};
    expected[at + "post_attention_layernorm.weight"] = {24};
    expected[at + "self_attn.q_proj.weight"] = {24, 24};
    expected[at + "self_attn.k_proj.weight"] = {8, 24};
    expected[at + "self_attn.v_proj.weight"] = {8, 24};
    expected[at + "self_attn.o_proj.weight"] = {24, 24};
    expected[at + "mlp.gate_proj.weight"] = {40, 24};
    expected[at + "mlp.up_proj.weight"] = {40, 24};
    expected[at + "mlp.down_proj.weight"] = {24, 40};
  }
  ModelSpec model = model_of(Family::llama);
  EXPECT_EQ(shapes_of(model), expected);
  model.tie_word_embeddings = true;
  expected.erase("lm_head.weight");
  EXPECT_EQ(shapes_of(model), expected);
  model.attention_bias = true;
  EXPECT_EQ(shapes_of(model).at("model.layers.1.self_attn.k_proj.bias"), Shape{8});
  EXPECT_EQ(shapes_of(model).size(), expected.size() + 6);
}

TEST(ParameterTable, Gpt2IsAsHuggingFaceStoresIt) {
  std::map<std::string, Shape> expected = {{"transformer.wte.weight", {100, 24}},
                                           {"transformer.wpe.weight", {50, 24}},
                                           {"transformer.ln_f.weight", {24}},
                                           {"transformer.ln_f.bias", {24}}};
  for (const char* layer : {"transformer.h.0.", "transformer.h.1."}) {
    const std::string at = layer;
    for (const char* norm : {"ln_1.weight", "ln_1.bias", "ln_2.weight", "ln_2.bias"})
      expected[at + norm] = {24};
    expected[at + "attn.c_attn.weight"] = {24, 72};
    expected[at + "attn.c_attn.bias"] = {72};
    expected[at + "attn.c_proj.weight"] = {24, 24};
    expected[at + "attn.c_proj.bias"] = {24};
    expected[at + "mlp.c_fc.weight"] = {24, 40};
    expected[at + "mlp.c_fc.bias"] = {40};
    expected[at + "mlp.c_proj.weight"] = {40, 24};
    expected[at + "mlp.c_proj.bias"] = {24};
  }
  EXPECT_EQ(shapes_of(model_of(Family::gpt2)), expected);
}

// Forward order, unit by unit; what is fused in a flat buffer stands side by side.
TEST(ParameterTable, UnitsAreAdjacentAndInOrder) {
  for (Family family : {Family::llama, Family::gpt2}) {
    const ParameterTable table(model_of(family));
    EXPECT_EQ(table.units(), 4);
    int64_t unit = 0;
    std::set<int64_t> seen;
    for (const ParameterRow& row : table.rows()) {
      EXPECT_TRUE(row.unit == unit || row.unit == unit + 1) << row.name;
      seen.insert(unit = row.unit);
    }
    EXPECT_EQ(seen.size(), 4u);
  }
  ModelSpec biased = model_of(Family::llama);
  biased.attention_bias = true;
  const ParameterTable table(biased);
  const auto next_role = [&](Role role) {
    const auto& rows = table.rows();
    return std::next(std::ranges::find(rows, role, &ParameterRow::role))->role;
  };
  EXPECT_EQ(next_role(Role::query), Role::key);
  EXPECT_EQ(next_role(Role::key), Role::value);
  EXPECT_EQ(next_role(Role::query_bias), Role::key_bias);
  EXPECT_EQ(next_role(Role::key_bias), Role::value_bias);
  EXPECT_EQ(next_role(Role::gate), Role::up);
}

// Column-parallel layers split what they put out, row-parallel ones what they take in (Megatron-LM, section
// 3).
TEST(ParameterTable, TensorAxisSplitsOutputsThenInputs) {
  for (Family family : {Family::llama, Family::gpt2}) {
    const ParameterTable table(model_of(family));
    for (const ParameterRow& row : table.rows()) {
      const AxisPlacement on_tensor = row.placement[Axis::tensor];
      const bool is_whole = row.role == Role::norm_weight || row.role == Role::norm_bias ||
                            row.role == Role::position_embedding || row.role == Role::attention_output_bias ||
                            row.role == Role::down_bias;
      EXPECT_EQ(on_tensor.kind == AxisPlacement::Kind::replicate, is_whole) << row.name;
      const bool splits_input = row.role == Role::attention_output || row.role == Role::down;
      if (!is_whole) {
        EXPECT_EQ(on_tensor.dim, row.is_matrix && splits_input != row.stored_in_out) << row.name;
      }
      EXPECT_EQ(row.placement[Axis::data].kind, AxisPlacement::Kind::replicate) << row.name;
    }
  }
}

// gpt2's fused matrix is query, key and value side by side: a rank has its heads of each (CASES B085).
TEST(ParameterTable, B085_AFusedMatrixIsSplitBlockByBlock) {
  const ParameterTable table(model_of(Family::gpt2));
  const Mesh mesh({1, 2, 1, 1, 1}, {Axis::tensor, Axis::context, Axis::data, Axis::pipeline});
  for (const char* name : {"transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn.c_attn.bias"}) {
    const ParameterRow& row = table.row(name);
    const int64_t hidden = row.shape.back() / 3, half = hidden / 2;
    const LocalPart part = local_part(row, mesh, 1);
    EXPECT_EQ(part.dim, static_cast<int>(row.shape.size()) - 1);
    ASSERT_EQ(part.runs.size(), 3u);
    for (int64_t block = 0; block < 3; ++block) {
      const IndexRun& run = part.runs[static_cast<size_t>(block)];
      EXPECT_EQ(run.local, block * half);
      EXPECT_EQ(run.global, block * hidden + half);
      EXPECT_EQ(run.size, half);
    }
    EXPECT_EQ(local_shape(row, mesh).back(), 3 * half);
  }
}

// The parts of all ranks are the whole, each index once.
TEST(ParameterTable, PartsMakeTheWhole) {
  const Mesh mesh({2, 2, 1, 1, 1}, {Axis::data, Axis::tensor, Axis::context, Axis::pipeline});
  for (Family family : {Family::llama, Family::gpt2}) {
    const ParameterTable table(model_of(family));
    for (const ParameterRow& row : table.rows()) {
      const bool split = is_split(row, mesh, Axis::tensor);
      const LocalPart first = local_part(row, mesh, 0), second = local_part(row, mesh, 2);
      std::vector<int> times(static_cast<size_t>(row.shape[static_cast<size_t>(first.dim)]));
      for (const LocalPart& part : {first, second})
        for (const IndexRun& run : part.runs)
          for (int64_t at = 0; at < run.size; ++at) ++times[static_cast<size_t>(run.global + at)];
      for (const int count : times) EXPECT_EQ(count, split ? 1 : 2) << row.name;
    }
  }
}

TEST(ParameterTable, InitialisersAndDecayFollowTheRole) {
  const ParameterTable gpt2(model_of(Family::gpt2)), llama(model_of(Family::llama));
  EXPECT_DOUBLE_EQ(gpt2.row("transformer.h.1.mlp.c_proj.weight").initializer.scale, 0.02 / 2);  // sqrt(2 * 2)
  EXPECT_DOUBLE_EQ(gpt2.row("transformer.h.1.mlp.c_fc.weight").initializer.scale, 0.02);
  EXPECT_DOUBLE_EQ(llama.row("model.layers.1.mlp.down_proj.weight").initializer.scale, 0.02);
  for (const ParameterTable& table : {gpt2, llama})
    for (const ParameterRow& row : table.rows()) {
      EXPECT_EQ(row.is_matrix, row.shape.size() == 2) << row.name;
      EXPECT_EQ(row.initializer.kind == Initializer::Kind::normal, row.is_matrix) << row.name;
      if (!row.is_matrix) {
        EXPECT_EQ(row.initializer.scale, row.role == Role::norm_weight) << row.name;
      }
    }
}

TEST(ParameterTable, LinearMapsAreTheMatricesOfTheBlocks) {
  for (const ParameterTable& table :
       {ParameterTable(model_of(Family::gpt2)), ParameterTable(model_of(Family::llama))})
    for (const ParameterRow& row : table.rows())
      EXPECT_EQ(row.is_linear(), row.shape.size() == 2 && row.unit > 0 && row.unit < table.units() - 1)
          << row.name;
}

TEST(ParameterTable, FindsRowsByName) {
  const ParameterTable table(model_of(Family::llama));
  EXPECT_TRUE(table.has("model.norm.weight"));
  EXPECT_FALSE(table.has("model.norm.bias"));
  EXPECT_EQ(table.row("lm_head.weight").role, Role::head);
  EXPECT_THROW(table.row("model.norm.bias"), Bug);
}

}  // namespace
}  // namespace muster::spec
