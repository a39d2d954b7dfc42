#include <cmath>
#include <numbers>

#include "nn/kernels/kernels.h"
#include "nn/ops/dispatch.h"
#include "nn/test_support.h"

namespace muster::nn {
namespace {

const PhiloxKey kKey = random_key(1, "noise");

at::Tensor normals(int64_t count, int64_t first, PhiloxKey key = kKey, double scale = 1) {
  const at::Tensor x = at::empty({count}, at::kFloat);
  kernels::fill_normal(data<float>(x), count, first, key, scale);
  return x;
}

at::Tensor mask(int64_t count, int64_t first, uint64_t draw, double p, PhiloxKey key = kKey) {
  const at::Tensor x = at::ones({count}, at::kFloat);
  kernels::dropout(data<float>(x), data<float>(x), count, first, draw, key, p);
  return x;
}

// Sizes of pieces that start and end inside batches of words and outside.
const std::vector<int64_t> kPieces = {1, 2, 253, 256, 700, 3, 65536, 70001};
constexpr int64_t kFirst = 1000003;

template <class Draw>
void expect_split_to_matter_not(const Draw& draw) {
  at::Tensor at_once;
  int64_t total = 0;
  Tensors pieces;
  for (int64_t piece : kPieces) {
    pieces.push_back(draw(piece, kFirst + total));
    total += piece;
  }
  for (int threads : {1, 2}) {
    const Threads guard(threads);
    at_once = draw(total, kFirst);
    EXPECT_TRUE(at_once.equal(at::cat(pieces))) << threads << " threads";
  }
}

TEST(Normal, EachPositionIsBoxMullerOverItsPhiloxWords) {
  const at::Tensor x = normals(4096, 0);
  for (int64_t pair = 0; pair < 2048; ++pair) {
    const PhiloxBlock words = philox(kKey, static_cast<uint64_t>(pair / 2));
    const uint32_t radius_word = words[pair % 2 * 2], angle_word = words[pair % 2 * 2 + 1];
    const double radius = std::sqrt(-2 * std::log(((radius_word >> 8) + 1) * 0x1p-24));
    const double angle = 2 * std::numbers::pi * (angle_word >> 8) * 0x1p-24;
    EXPECT_NEAR(x[2 * pair].item<double>(), radius * std::cos(angle), 4e-6) << pair;
    EXPECT_NEAR(x[2 * pair + 1].item<double>(), radius * std::sin(angle), 4e-6) << pair;
  }
}

// Bounds are five standard errors of each estimate over n draws.
TEST(Normal, MomentsAndTails) {
  constexpr int64_t kCount = 1 << 20;
  const double n = kCount;
  const at::Tensor x = normals(kCount, 0).to(at::kDouble);
  EXPECT_NEAR(x.mean().item<double>(), 0, 5 / std::sqrt(n));
  EXPECT_NEAR(x.square().mean().item<double>(), 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(x.pow(3).mean().item<double>(), 0, 5 * std::sqrt(15 / n));
  EXPECT_NEAR(x.pow(4).mean().item<double>(), 3, 5 * std::sqrt(96 / n));
  for (double beyond : {1.0, 2.0, 3.0, 4.0}) {
    const double share = std::erfc(beyond / std::numbers::sqrt2) / 2;
    const double error = 5 * std::sqrt(share / n);
    EXPECT_NEAR(x.gt(beyond).to(at::kDouble).mean().item<double>(), share, error) << beyond;
    EXPECT_NEAR(x.lt(-beyond).to(at::kDouble).mean().item<double>(), share, error) << beyond;
  }
}

TEST(Normal, NeighboursAreIndependent) {
  constexpr int64_t kCount = 1 << 20;
  const at::Tensor x = normals(kCount, 0).to(at::kDouble);
  for (int64_t apart : {1, 2, 3, 4, 256, 1024}) {
    const at::Tensor product = x.narrow(0, 0, kCount - apart) * x.narrow(0, apart, kCount - apart);
    EXPECT_NEAR(product.mean().item<double>(), 0, 5 / std::sqrt(kCount)) << apart;
  }
}

TEST(Normal, PiecesAndThreadsChangeNothing) {
  expect_split_to_matter_not([](int64_t count, int64_t first) { return normals(count, first); });
}

TEST(Normal, KeysAndPositionsDraw) {
  const at::Tensor x = normals(5000, 100);
  EXPECT_TRUE(x.equal(normals(5000, 100)));
  EXPECT_TRUE(x.narrow(0, 900, 4100).equal(normals(4100, 1000)));
  EXPECT_LT(x.eq(normals(5000, 101)).sum().item<int64_t>(), 10);
  EXPECT_LT(x.eq(normals(5000, 100, random_key(1, "other"))).sum().item<int64_t>(), 10);
  EXPECT_LT(x.eq(normals(5000, 100, random_key(2, "noise"))).sum().item<int64_t>(), 10);
}

TEST(Normal, ScaledAndInDouble) {
  EXPECT_TRUE(normals(3000, 0, kKey, 0.02).equal(normals(3000, 0) * 0.02f));
  const at::Tensor wide = at::empty({3000}, at::kDouble);
  kernels::fill_normal(data<double>(wide), 3000, 0, kKey, 0.02);
  EXPECT_TRUE(wide.equal(normals(3000, 0, kKey, 0.02).to(at::kDouble)));
}

TEST(Normal, InBfloat16TheyAreRounded) {
  const at::Tensor x = at::empty({3000}, at::kBFloat16);
  kernels::fill_normal(data<c10::BFloat16>(x), 3000, 0, kKey, 0.02);
  EXPECT_TRUE(x.equal(normals(3000, 0, kKey, 0.02).to(at::kBFloat16)));
}

TEST(DropoutKernel, KeepsAShareAndScalesIt) {
  constexpr int64_t kCount = 1 << 20;
  for (double p : {0.01, 0.1, 0.5, 0.9}) {
    const at::Tensor x = mask(kCount, 0, 0, p);
    const double kept = x.ne(0).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(kept, 1 - p, 5 * std::sqrt(p * (1 - p) / kCount)) << p;
    EXPECT_TRUE(x.eq(0).logical_or(x.eq(static_cast<float>(1 / (1 - p)))).all().item<bool>()) << p;
  }
  EXPECT_TRUE(mask(1000, 0, 0, 0).eq(1).all().item<bool>());
}

TEST(DropoutKernel, TheWordOfAPositionDecides) {
  const at::Tensor x = mask(1000, 0, 77, 0.3);
  for (int64_t i = 0; i < 1000; ++i) {
    const uint32_t word = philox(kKey, static_cast<uint64_t>(i / 4), 77)[i % 4];
    EXPECT_EQ(x[i].item<float>() != 0, word >= 0.3 * 0x1p32) << i;
  }
}

TEST(DropoutKernel, PiecesAndThreadsChangeNothing) {
  expect_split_to_matter_not([](int64_t count, int64_t first) { return mask(count, first, 5, 0.4); });
}

// Two masks of p = 1/2 agree in half of their places when they are independent.
TEST(DropoutKernel, StepsAndKeysDrawOthers) {
  constexpr int64_t kCount = 1 << 18;
  const at::Tensor x = mask(kCount, 0, 3, 0.5);
  EXPECT_TRUE(x.equal(mask(kCount, 0, 3, 0.5)));
  for (const at::Tensor& other :
       {mask(kCount, 0, 4, 0.5), mask(kCount, 1, 3, 0.5), mask(kCount, 0, 3, 0.5, random_key(1, "other"))})
    EXPECT_NEAR(x.eq(other).to(at::kDouble).mean().item<double>(), 0.5, 5 * 0.5 / std::sqrt(kCount));
}

TEST(DropoutKernel, OutOfPlaceInBothTypes) {
  const at::Tensor x = normal({700}, at::kDouble, 1), out = at::empty_like(x);
  kernels::dropout(data<double>(out), data<double>(x), 700, 9, 1, kKey, 0.25);
  EXPECT_LE(relative_error(out, x * mask(700, 9, 1, 0.25).ne(0) / 0.75), 1e-15);
}

TEST(DropoutKernel, InBfloat16ItIsRoundedOnce) {
  const at::Tensor x = normal({700}, at::kBFloat16, 1), out = at::empty_like(x);
  kernels::dropout(data<c10::BFloat16>(out), data<c10::BFloat16>(x), 700, 9, 1, kKey, 0.25);
  EXPECT_TRUE(out.equal((x.to(at::kFloat) * mask(700, 9, 1, 0.25)).to(at::kBFloat16)));
}

}  // namespace
}  // namespace muster::nn
