#include "checkpoint/layouts.h"

#include <gtest/gtest.h>

#include <functional>

namespace muster::checkpoint {
namespace {

at::Tensor ids(std::vector<int64_t> values) {
  return at::tensor(values);
}

spec::ModelSpec four_heads_on_two(int64_t head_dim) {
  spec::ModelSpec model;
  model.num_attention_heads = 4;
  model.num_key_value_heads = 2;
  model.head_dim = head_dim;
  return model;
}

// Turns each pair of rows of x [heads, head_dim, positions] by its angle at each position; pair i is rows
// first(i) and second(i).
using RowOf = std::function<int64_t(int64_t pair)>;
at::Tensor rotated(const at::Tensor& x, const RowOf& first, const RowOf& second) {
  at::Tensor y = at::empty_like(x);
  const int64_t half = x.size(1) / 2;
  for (int64_t i = 0; i < half; ++i) {
    const at::Tensor angle =
        at::arange(x.size(2), at::kDouble) * std::pow(10000.0, -double(i) / double(half));
    const at::Tensor a = x.select(1, first(i)), b = x.select(1, second(i));
    y.select(1, first(i)).copy_(a * angle.cos() - b * angle.sin());
    y.select(1, second(i)).copy_(b * angle.cos() + a * angle.sin());
  }
  return y;
}

TEST(Layouts, B083PairwiseToHalfSplitMovesRowsOfWeightsAndBiases) {
  EXPECT_TRUE(at::equal(pairwise_to_half_split(ids({0, 1, 2, 3}), 4), ids({0, 2, 1, 3})));
  EXPECT_TRUE(
      at::equal(pairwise_to_half_split(ids({0, 1, 2, 3, 4, 5, 6, 7}), 8), ids({0, 2, 4, 6, 1, 3, 5, 7})));
  EXPECT_TRUE(
      at::equal(pairwise_to_half_split(ids({0, 1, 2, 3, 4, 5, 6, 7}), 4), ids({0, 2, 1, 3, 4, 6, 5, 7})))
      << "each head by itself";
  const at::Tensor weight = at::randn({16, 5});
  EXPECT_TRUE(at::equal(pairwise_to_half_split(weight, 8)[8 + 1], weight[8 + 2])) << "whole rows move";
  EXPECT_TRUE(at::equal(half_split_to_pairwise(pairwise_to_half_split(weight, 8), 8), weight));
}

TEST(Layouts, B083ScoresAreThoseOfThePairwiseForward) {
  constexpr int64_t heads = 2, head_dim = 8, positions = 6, hidden = 10;
  const auto options = at::TensorOptions(at::kDouble);
  const at::Tensor x = at::randn({hidden, positions}, options);
  const at::Tensor q = at::randn({heads * head_dim, hidden}, options), k = at::randn_like(q);
  const auto scores = [&](const at::Tensor& q_rows, const at::Tensor& k_rows, const RowOf& first,
                          const RowOf& second) {
    const auto side = [&](const at::Tensor& rows) {
      return rotated(rows.matmul(x).view({heads, head_dim, positions}), first, second);
    };
    return side(q_rows).transpose(1, 2).bmm(side(k_rows));
  };
  const RowOf even = [](int64_t i) { return 2 * i; }, odd = [](int64_t i) { return 2 * i + 1; };
  const RowOf low = [](int64_t i) { return i; }, high = [](int64_t i) { return i + head_dim / 2; };
  const at::Tensor pairwise = scores(q, k, even, odd);
  const at::Tensor moved =
      scores(pairwise_to_half_split(q, head_dim), pairwise_to_half_split(k, head_dim), low, high);
  EXPECT_TRUE(at::allclose(pairwise, moved, 1e-10, 1e-10));
  EXPECT_FALSE(at::allclose(pairwise, scores(q, k, low, high), 1e-3, 1e-3)) << "unmoved rows are wrong";
}

TEST(Layouts, B085FusedOrderIsGroupByGroup) {
  const spec::ModelSpec model = four_heads_on_two(1);
  const at::Tensor q = ids({0, 1, 2, 3}), k = ids({10, 11}), v = ids({20, 21});
  const at::Tensor fused = fuse_qkv(q, k, v, model);
  EXPECT_TRUE(at::equal(fused, ids({0, 1, 10, 20, 2, 3, 11, 21})));
  const std::vector<at::Tensor> ranks = fused.chunk(2);
  EXPECT_TRUE(at::equal(ranks[1], ids({2, 3, 11, 21}))) << "one whole group each with tp = 2";
}

TEST(Layouts, B085SplittingGivesBackWhatWasFused) {
  const spec::ModelSpec model = four_heads_on_two(6);
  const at::Tensor q = at::randn({24, 5}), k = at::randn({12, 5}), v = at::randn({12, 5});
  const at::Tensor fused = fuse_qkv(q, k, v, model);
  EXPECT_EQ(fused.sizes(), (at::IntArrayRef{48, 5}));
  const auto [q2, k2, v2] = split_qkv(fused, model);
  EXPECT_TRUE(at::equal(q2, q) && at::equal(k2, k) && at::equal(v2, v));

  spec::ModelSpec half = model;  // a rank of tp = 2 holds half the heads
  half.num_attention_heads = 2;
  half.num_key_value_heads = 1;
  const auto [q_1, k_1, v_1] = split_qkv(fused.chunk(2)[1], half);
  EXPECT_TRUE(at::equal(q_1, q.chunk(2)[1]) && at::equal(k_1, k.chunk(2)[1]) &&
              at::equal(v_1, v.chunk(2)[1]));
  const at::Tensor bias = fuse_qkv(q.select(1, 0), k.select(1, 0), v.select(1, 0), model);
  EXPECT_TRUE(at::equal(bias, fused.select(1, 0))) << "biases go as their rows do";
}

}  // namespace
}  // namespace muster::checkpoint
