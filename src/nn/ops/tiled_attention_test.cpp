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

spec::Blocks causal(const Shape& s) {
  return whole_sequences(s.sequences, s.length).blocks[0];
}

class Attention : public ::testing::TestWithParam<at::ScalarType> {};
class Scratch : public Attention {};

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
      const AttentionOutput saved = attention(run, qkv, s.length, s.heads, causal(s));
      const at::Tensor gradient = qkv.clone();
      attention_backward(run, gradient, saved, dout, s.length, s.heads, causal(s));
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
    const AttentionOutput right = attention(run, qkv, s.length, s.heads, causal(s));
    const AttentionOutput composed{at::empty_like(right.out_NQ), at::empty_like(right.lse_BQS)};
    composite::attention(composed, qkv, s.length, s.heads, causal(s));
    EXPECT_LE(relative_error(composed.out_NQ, right.out_NQ), 64 * epsilon(GetParam()));
    EXPECT_LE(relative_error(composed.lse_BQS, right.lse_BQS), 64 * epsilon(GetParam()));
    composite::attention_backward(gradient, composed, dout, s.length, s.heads, causal(s));
    attention_backward(run, qkv, right, dout, s.length, s.heads, causal(s));
    EXPECT_LE(relative_error(gradient, qkv), 64 * epsilon(GetParam()));
  }
}

// What it takes inside is scratch, and far less than the scores of all heads.
TEST_P(Scratch, IsATileAThread) {
  const Clock clock;
  Executor run(at::kCPU, GetParam(), clock);
  const Threads threads(1);
  const HeadShape heads{8, 4, 16};
  const spec::Blocks one = whole_sequences(1, 512).blocks[0];
  const at::Tensor qkv = normal({512, heads.row()}, GetParam(), 1),
                   dout = normal({512, heads.q_size()}, GetParam(), 2);
  device::Ledger& ledger = device::ledger(at::kCPU);
  const AttentionOutput saved = attention(run, qkv, 512, heads, one);
  ledger.reset_peak();
  const int64_t before = ledger.peak();
  attention_backward(run, qkv, saved, dout, 512, heads, one);
  EXPECT_EQ(ledger.peak(), before);
  const auto element = static_cast<int64_t>(c10::elementSize(wide_type(GetParam())));
  // Of bfloat16, copies of keys and values and of a tile of queries and their gradients.
  const int64_t copies = is_narrow(qkv) ? 2 * (512 + 64) * 16 : 0;
  EXPECT_EQ(ledger.scratch_peak(), (2 * 64 * 512 + 2 * 512 * 16 + copies) * element);
}

// The rows of a rank of a ring meet those of the others, for any number of ranks and documents: together they
// give what one rank gives over whole sequences.
struct Ring {
  int64_t ranks;
  std::vector<spec::Stretch> documents;
};
const Ring kRings[] = {{2, {{0, 280}}},
                       {4, {{0, 160}}},
                       {2, {{0, 4}, {4, 12}, {16, 100}, {116, 160}}},
                       {3, {{0, 5}, {5, 1}, {6, 83}, {89, 7}, {96, 24}}},
                       {4, {{0, 5}, {5, 3}, {8, 8}}}};

TEST_P(Attention, BlocksOfARingAreTheWhole) {
  const Clock clock;
  Executor run(at::kCPU, GetParam(), clock);
  const HeadShape heads{4, 2, 6};
  for (const Ring& ring : kRings) {
    const int64_t length = ring.documents.back().first + ring.documents.back().size;
    const std::vector<std::vector<spec::Stretch>> both(2, ring.documents);
    const Positions whole = make_positions(both, length, 0, {});
    const at::Tensor qkv = 2 * normal({2 * length, heads.row()}, GetParam(), 1);
    const at::Tensor dout = normal({2 * length, heads.q_size()}, GetParam(), 2);
    const AttentionOutput right = attention(run, qkv, length, heads, whole.blocks[0]);
    const at::Tensor gradient = qkv.clone();
    attention_backward(run, gradient, right, dout, length, heads, whole.blocks[0]);
    std::vector<Positions> positions;
    std::vector<at::Tensor> rows;  // of the whole, by rank
    for (int64_t rank = 0; rank < ring.ranks; ++rank) {
      positions.push_back(make_positions(both, length, 0, {"ring", rank, ring.ranks}));
      std::vector<int64_t> tokens;
      for (const RowRun& at : positions.back().runs)
        for (int64_t row = 0; row < at.rows; ++row) tokens.push_back(at.token + row);
      ASSERT_EQ(std::ssize(tokens), 2 * length / ring.ranks);
      rows.push_back(at::tensor(tokens, at::kLong));
    }
    const at::Tensor measured = at::zeros_like(qkv);
    for (const bool composed : {false, true}) {
      measured.zero_();
      for (size_t rank = 0; rank < rows.size(); ++rank) {
        const Positions& here = positions[rank];
        const at::Tensor own = qkv.index_select(0, rows[rank]), own_dout = dout.index_select(0, rows[rank]);
        const AttentionOutput joined = attention(run, own, here.length, heads, here.blocks[rank]);
        const at::Tensor dq = at::zeros_like(own_dout);
        const auto kv_of = [&](size_t peer) {
          return qkv.index_select(0, rows[peer]).narrow(1, heads.q_size(), 2 * heads.kv_size()).contiguous();
        };
        for (size_t peer = 0; peer < rows.size(); ++peer) {
          if (peer == rank) continue;
          (composed ? composite::attention_to : tiled_attention_to)(joined, own, kv_of(peer), here.length,
                                                                    heads, here.blocks[peer]);
        }
        EXPECT_LE(relative_error(joined.out_NQ, right.out_NQ.index_select(0, rows[rank])),
                  64 * epsilon(GetParam()));
        for (size_t peer = 0; peer < rows.size(); ++peer) {
          if (peer == rank) continue;
          const at::Tensor dkv = at::zeros_like(kv_of(peer));
          (composed ? composite::attention_to_backward : tiled_attention_to_backward)(
              dq, dkv, own, kv_of(peer), joined, own_dout, here.length, heads, here.blocks[peer]);
          measured.narrow(1, heads.q_size(), 2 * heads.kv_size()).index_add_(0, rows[peer], dkv);
        }
        attention_backward(run, own, joined, own_dout, here.length, heads, here.blocks[rank]);
        own.narrow(1, 0, heads.q_size()).add_(dq);
        measured.index_add_(0, rows[rank], own);
      }
      EXPECT_LE(relative_error(measured, gradient), 64 * epsilon(GetParam())) << composed << ring.ranks;
    }
  }
}

constexpr auto kNameOfType = [](const auto& info) { return std::string(c10::toString(info.param)); };
INSTANTIATE_TEST_SUITE_P(Types, Attention, ::testing::Values(at::kFloat, at::kDouble), kNameOfType);
INSTANTIATE_TEST_SUITE_P(Types, Scratch, ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         kNameOfType);

// What a call on bfloat16 writes is what the same call in fp64 writes from the same numbers, with the error
// of fp32 as above and one rounding: two ways, in tiles and composed.
class InBfloat16 : public ::testing::TestWithParam<bool> {
 protected:
  // Calls attend(tensors) on these and on copies in fp64, and compares all.
  template <class Attend>
  static void expect_one_rounding(const Tensors& tensors, const Attend& attend) {
    Tensors one = copies(tensors), two = copies(tensors), right = in_double(tensors);
    {
      const Threads threads(1);
      attend(one);
    }
    {
      const Threads threads(2);
      attend(two);
    }
    attend(right);
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_TRUE(GetParam() || one[i].equal(two[i])) << "tensor " << i << ": one thread and two differ";
      expect_near(one[i], right[i], 64, "tensor " + std::to_string(i));
    }
  }
};

TEST_P(InBfloat16, AttentionIsRoundedOnce) {
  const bool composed = GetParam();
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(s.length);
    const int64_t rows = s.sequences * s.length;
    const at::Tensor qkv = 2 * normal({rows, s.heads.row()}, at::kBFloat16, 1);
    const at::Tensor out = normal({rows, s.heads.q_size()}, at::kBFloat16, 2), dout = at::rand_like(out);
    const at::Tensor lse = at::empty({s.sequences, s.heads.query_heads, s.length}, at::kFloat);
    const Tensors forward{out, lse, qkv};
    expect_one_rounding(forward, [&](Tensors& t) {
      (composed ? composite::attention : tiled_attention)({t[0], t[1]}, t[2], s.length, s.heads, causal(s));
    });
    tiled_attention({out, lse}, qkv, s.length, s.heads, causal(s));
    expect_one_rounding({qkv, out, lse, dout}, [&](Tensors& t) {
      (composed ? composite::attention_backward : tiled_attention_backward)(t[0], {t[1], t[2]}, t[3],
                                                                            s.length, s.heads, causal(s));
    });
  }
}

// A hop of a ring joins what is there, and adds to it.
TEST_P(InBfloat16, AHopIsRoundedOnce) {
  const bool composed = GetParam();
  const HeadShape heads{6, 2, 10};
  const int64_t length = 140;
  const Positions first = make_positions({{{0, 200}, {200, 80}}}, 2 * length, 0, {"ring", 0, 2});
  const spec::Blocks &own = first.blocks[0], &peers = first.blocks[1];
  ASSERT_FALSE(peers.empty());
  const at::Tensor qkv = 2 * normal({length, heads.row()}, at::kBFloat16, 1);
  const at::Tensor kv = 2 * normal({length, 2 * heads.kv_size()}, at::kBFloat16, 2);
  const at::Tensor out = at::empty({length, heads.q_size()}, at::kBFloat16);
  const at::Tensor lse = at::empty({1, heads.query_heads, length}, at::kFloat);
  tiled_attention({out, lse}, qkv, length, heads, own);
  expect_one_rounding({out, lse, qkv, kv}, [&](Tensors& t) {
    (composed ? composite::attention_to : tiled_attention_to)({t[0], t[1]}, t[2], t[3], length, heads, peers);
  });
  tiled_attention_to({out, lse}, qkv, kv, length, heads, peers);
  const at::Tensor dout = normal({length, heads.q_size()}, at::kBFloat16, 3);
  const at::Tensor dq = normal(dout.sizes(), at::kBFloat16, 4), dkv = normal(kv.sizes(), at::kBFloat16, 5);
  expect_one_rounding({dq, dkv, qkv, kv, out, lse, dout}, [&](Tensors& t) {
    (composed ? composite::attention_to_backward : tiled_attention_to_backward)(
        t[0], t[1], t[2], t[3], {t[4], t[5]}, t[6], length, heads, peers);
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, InBfloat16, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "composed" : "tiled"; });

}  // namespace
}  // namespace muster::nn
