// Attention and its gradient against autograd over whole scores.
#include "nn/ops/tiled_attention.h"

#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "nn/ops/composite.h"
#include "nn/test_support.h"

namespace muster::nn {
namespace {

struct Shape {
  int64_t sequences, length;
  HeadShape heads;
};
const Shape kShapes[] = {{3, 1, {4, 2, 6}},   {2, 64, {4, 2, 6}},   {1, 65, {3, 1, 10}},
                         {2, 255, {4, 4, 8}}, {2, 256, {4, 2, 16}}, {3, 300, {6, 2, 10}}};

at::Tensor by_heads(const at::Tensor& x_NE, int64_t first, int64_t heads, const Shape& s) {
  return x_NE.narrow(1, first, heads * s.heads.head_dim)
      .view({s.sequences, s.length, heads, -1})
      .transpose(1, 2);
}

at::Tensor whole_scores(const at::Tensor& qkv_NE, const Shape& s) {
  const HeadShape& h = s.heads;
  const int64_t repeats = h.query_heads / h.key_heads;
  const at::Tensor q = by_heads(qkv_NE, 0, h.query_heads, s);
  const at::Tensor k = by_heads(qkv_NE, h.q_size(), h.key_heads, s).repeat_interleave(repeats, 1);
  const at::Tensor v =
      by_heads(qkv_NE, h.q_size() + h.kv_size(), h.key_heads, s).repeat_interleave(repeats, 1);
  const at::Tensor future = at::ones({s.length, s.length}, at::kBool).triu(1);
  const at::Tensor scores = q.matmul(k.transpose(2, 3)) / std::sqrt(h.head_dim);
  return scores.masked_fill(future, -INFINITY).softmax(-1).matmul(v).transpose(1, 2).flatten(2).flatten(0, 1);
}

class Attention : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(Attention, OutputAndGradientWithAnyNumberOfThreads) {
  const Clock clock;
  Executor run(at::kCPU, GetParam(), clock);
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(s.length);
    const int64_t rows = s.sequences * s.length;
    const at::Tensor qkv = 2 * normal({rows, s.heads.row()}, GetParam(), 1);
    const at::Tensor dout = normal({rows, s.heads.q_size()}, GetParam(), 2);
    const at::Tensor leaf = qkv.to(at::kDouble, false, /*copy=*/true).requires_grad_(true);
    const at::Tensor right = whole_scores(leaf, s);
    torch::autograd::backward({right}, {dout.to(at::kDouble)});
    Tensors seen;
    for (int count : {1, 2}) {
      const Threads threads(count);
      const AttentionOutput saved = attention(run, qkv, s.length, s.heads);
      const at::Tensor gradient = qkv.clone();
      attention_backward(run, gradient, saved, dout, s.length, s.heads, {});
      EXPECT_LE(relative_error(saved.out_NQ, right.detach()), 64 * epsilon(GetParam()));
      EXPECT_LE(relative_error(gradient, leaf.grad()), 64 * epsilon(GetParam()));
      seen.insert(seen.end(), {saved.out_NQ, gradient});
    }
    EXPECT_TRUE(seen[0].equal(seen[2]));
    EXPECT_TRUE(seen[1].equal(seen[3]));
  }
}

// What other devices run.
TEST_P(Attention, TheCompositionIsTheSameFunction) {
  const Clock clock;
  Executor run(at::kCPU, GetParam(), clock);
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(s.length);
    const int64_t rows = s.sequences * s.length;
    const at::Tensor qkv = 2 * normal({rows, s.heads.row()}, GetParam(), 1), gradient = qkv.clone();
    const at::Tensor dout = normal({rows, s.heads.q_size()}, GetParam(), 2);
    const AttentionOutput right = attention(run, qkv, s.length, s.heads);
    const AttentionOutput composed{at::empty_like(right.out_NQ), at::empty_like(right.lse_BQS)};
    composite::attention(composed, qkv, s.length, s.heads);
    EXPECT_LE(relative_error(composed.out_NQ, right.out_NQ), 64 * epsilon(GetParam()));
    EXPECT_LE(relative_error(composed.lse_BQS, right.lse_BQS), 64 * epsilon(GetParam()));
    composite::attention_backward(gradient, composed, dout, s.length, s.heads);
    attention_backward(run, qkv, right, dout, s.length, s.heads, {});
    EXPECT_LE(relative_error(gradient, qkv), 64 * epsilon(GetParam()));
  }
}

TEST_P(Attention, TheGradientIsRotatedBack) {
  const Clock clock;
  Executor run(at::kCPU, GetParam(), clock);
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(s.length);
    const int64_t rows = s.sequences * s.length, turned = s.heads.query_heads + s.heads.key_heads;
    const at::Tensor angle = normal({s.length, s.heads.head_dim / 2}, at::kDouble, 3);
    const RotaryTable table{angle.cos().to(GetParam()), angle.sin().to(GetParam())};
    const at::Tensor qkv = normal({rows, s.heads.row()}, GetParam(), 1), measured = qkv.clone(),
                     right = qkv.clone();
    const at::Tensor dout = normal({rows, s.heads.q_size()}, GetParam(), 2);
    const AttentionOutput saved = attention(run, qkv, s.length, s.heads);
    attention_backward(run, measured, saved, dout, s.length, s.heads, table);
    attention_backward(run, right, saved, dout, s.length, s.heads, {});
    composite::rotate(right.narrow(1, 0, turned * s.heads.head_dim).view({rows, turned, -1}), table.cos_LD,
                      table.sin_LD, /*back=*/true);
    EXPECT_LE(relative_error(measured, right), 4 * epsilon(GetParam()));
  }
}

// What it takes inside is scratch, and far less than the scores of all heads.
TEST_P(Attention, TakesATileOfScratchAThread) {
  const Clock clock;
  Executor run(at::kCPU, GetParam(), clock);
  const Threads threads(1);
  const HeadShape heads{8, 4, 16};
  const at::Tensor qkv = normal({512, heads.row()}, GetParam(), 1),
                   dout = normal({512, heads.q_size()}, GetParam(), 2);
  device::Ledger& ledger = device::ledger(at::kCPU);
  const AttentionOutput saved = attention(run, qkv, 512, heads);
  ledger.reset_peak();
  const int64_t before = ledger.peak();
  attention_backward(run, qkv, saved, dout, 512, heads, {});
  EXPECT_EQ(ledger.peak(), before);
  const auto element = static_cast<int64_t>(c10::elementSize(GetParam()));
  EXPECT_EQ(ledger.scratch_peak(), (2 * 64 * 512 + 2 * 512 * 16) * element);
}

INSTANTIATE_TEST_SUITE_P(Types, Attention, ::testing::Values(at::kFloat, at::kDouble),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

}  // namespace
}  // namespace muster::nn
