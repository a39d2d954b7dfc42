#include "spec/model/gradient_placement.h"

#include <gtest/gtest.h>

#include "spec/mesh/local_shape.h"

namespace muster::spec {
namespace {

ModelSpec model() {
  ModelSpec model;
  model.vocab_size = 65;
  model.hidden_size = 32;
  model.num_hidden_layers = 1;
  model.num_attention_heads = 4;
  model.num_key_value_heads = 2;
  model.intermediate_size = 48;
  complete(model);
  return model;
}

LayoutConfig tensor(int64_t size, bool sequence_parallel) {
  LayoutConfig layout;
  layout.data = 1;
  layout.tensor = size;
  layout.sequence_parallel = sequence_parallel;
  return layout;
}

int64_t partial_rows(const LayoutConfig& layout) {
  int64_t count = 0;
  const ParameterTable table(model());
  for (const ParameterRow& row : table.rows()) count += is_partial_over_tensor(row, layout);
  return count;
}

TEST(GradientPlacement, NormsAreReplicasUntilRowsAreShared) {
  EXPECT_EQ(partial_rows(tensor(1, false)), 0);
  EXPECT_EQ(partial_rows(tensor(2, false)), 0);
  EXPECT_EQ(partial_rows(tensor(2, true)), 3);   // the norms
  EXPECT_EQ(partial_rows(tensor(4, false)), 2);  // the shared key and value
  EXPECT_EQ(partial_rows(tensor(4, true)), 3 + 2);
}

TEST(LocalPart, NeighboursShareAHead) {
  const ParameterTable table(model());
  const ParameterRow& key = table.row("model.layers.0.self_attn.k_proj.weight");
  const Mesh mesh = make_mesh(tensor(4, false));
  EXPECT_EQ(local_shape(key, mesh), (std::vector<int64_t>{8, 32}));
  EXPECT_EQ(copies(key, mesh, Axis::tensor), 2);
  for (int64_t rank = 0; rank < 4; ++rank) {
    const LocalPart part = local_part(key, mesh, rank);
    ASSERT_EQ(part.runs.size(), 1u);
    EXPECT_EQ(part.runs[0].global, rank / 2 * 8);
    EXPECT_EQ(part.runs[0].size, 8);
  }
}

TEST(LocalPart, APaddedVocabularyEndsWhereItEnds) {
  const ParameterTable table(model());
  const ParameterRow& head = table.row("lm_head.weight");
  const Mesh mesh = make_mesh(tensor(4, false));
  EXPECT_EQ(local_shape(head, mesh), (std::vector<int64_t>{17, 32}));
  int64_t ids = 0, padding = 0;
  for (int64_t rank = 0; rank < 4; ++rank) {
    for (const IndexRun& run : local_part(head, mesh, rank).runs) ids += run.size;
    padding += padding_elements(head, mesh, rank);
  }
  EXPECT_EQ(ids, 65);
  EXPECT_EQ(padding, 3 * 32);
}

TEST(LocalPart, ARankMayHoldNothingButPadding) {
  ModelSpec small = model();
  small.vocab_size = 5;
  const ParameterTable table(small);
  const ParameterRow& head = table.row("lm_head.weight");
  const Mesh mesh = make_mesh(tensor(4, false));
  EXPECT_TRUE(local_part(head, mesh, 3).runs.empty());
  EXPECT_EQ(padding_elements(head, mesh, 3), 2 * 32);
}

}  // namespace
}  // namespace muster::spec
