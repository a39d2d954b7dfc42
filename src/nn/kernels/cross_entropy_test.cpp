#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"
#include "nn/test_support.h"

namespace muster::nn {
namespace {

template <class T>
class CrossEntropyKernel : public ::testing::Test {};
TYPED_TEST_SUITE(CrossEntropyKernel, Types);

// Every third row is not counted.
at::Tensor targets_of(int64_t rows, int64_t vocabulary) {
  const at::Tensor targets = integers(0, vocabulary, rows, 3);
  return at::where(at::arange(rows).remainder(3).eq(2), at::full_like(targets, -100), targets);
}

template <class T>
void expect_cross_entropy(const at::Tensor& logits, const at::Tensor& targets, bool gradient) {
  const int64_t rows = logits.size(0), vocabulary = logits.size(1);
  expect_agreement<T>(
      {logits, normal({rows}, at::kDouble, 4), targets}, 16,
      [=](auto zero, Tensors& t) {
        using Own = decltype(zero);
        kernels::cross_entropy(data<Own>(t[0]), data<double>(t[1]), data<int32_t>(t[2]), rows, vocabulary,
                               gradient);
      },
      [=](Tensors& t) { composite::cross_entropy(t[0], t[1], t[2], gradient); });
}

TYPED_TEST(CrossEntropyKernel, LossAndGradient) {
  for (bool gradient : {false, true})
    over_shapes([gradient](int64_t rows, int64_t size) {
      expect_cross_entropy<TypeParam>(3 * normal({rows, size}, kType<TypeParam>, 1), targets_of(rows, size),
                                      gradient);
    });
}

// The three steps over a split vocabulary, the ranks' parts joined as messages join them.
template <class T>
void split_in_parts(Tensors& t, int64_t parts, bool gradient) {
  const at::Tensor targets = t[2];
  const int64_t rows = t[0].size(0), size = t[0].size(1) / parts;
  const auto logits = t[0].chunk(parts, 1);
  Tensors mine;
  at::Tensor most = at::full({rows}, -std::numeric_limits<double>::infinity(), kType<T>);
  for (const at::Tensor& part : logits) {
    mine.push_back(part.contiguous());
    const at::Tensor here = at::empty({rows}, kType<T>);
    kernels::largest_logit(data<T>(here), data<T>(mine.back()), rows, size);
    most = at::maximum(most, here);
  }
  at::Tensor sums = at::zeros({2, rows}, at::kDouble);
  for (int64_t part = 0; part < parts; ++part) {
    const at::Tensor here = at::empty({2, rows}, at::kDouble);
    kernels::exp_sums(data<T>(mine[part]), data<double>(here[0]), data<double>(here[1]), data<T>(most),
                      data<int32_t>(targets), rows, size, part * size, gradient);
    sums += here;
  }
  for (int64_t part = 0; part < parts; ++part)
    kernels::split_cross_entropy(data<T>(mine[part]), data<double>(t[1]), data<double>(sums[0]),
                                 data<double>(sums[1]), data<T>(most), data<int32_t>(targets), rows, size,
                                 part * size, gradient);
  if (gradient) t[0].copy_(at::cat(mine, 1));
}

TYPED_TEST(CrossEntropyKernel, ASplitVocabularyGivesTheSame) {
  using T = TypeParam;
  for (bool gradient : {false, true})
    for (int64_t parts : {1, 2, 4})
      expect_agreement<T>(
          {3 * normal({9, 40}, kType<T>, 1), normal({9}, at::kDouble, 4), targets_of(9, 40)}, 16,
          [=](auto zero, Tensors& t) { split_in_parts<decltype(zero)>(t, parts, gradient); },
          [=](Tensors& t) { composite::cross_entropy(t[0], t[1], t[2], gradient); });
}

// The steps as compositions, on one part that begins inside the vocabulary.
TYPED_TEST(CrossEntropyKernel, EachStepOfASplitVocabulary) {
  using T = TypeParam;
  constexpr int64_t kRows = 9, kSize = 20, kFirst = 10;
  for (bool gradient : {false, true})
    expect_agreement<T>(
        {3 * normal({kRows, kSize}, kType<T>, 1), normal({kRows}, at::kDouble, 4), targets_of(kRows, 40),
         at::empty({kRows}, kType<T>), at::empty({2, kRows}, at::kDouble)},
        16,
        [=](auto zero, Tensors& t) {
          using T = decltype(zero);
          kernels::largest_logit(data<T>(t[3]), data<T>(t[0]), kRows, kSize);
          kernels::exp_sums(data<T>(t[0]), data<double>(t[4][0]), data<double>(t[4][1]), data<T>(t[3]),
                            data<int32_t>(t[2]), kRows, kSize, kFirst, gradient);
          kernels::split_cross_entropy(data<T>(t[0]), data<double>(t[1]), data<double>(t[4][0]),
                                       data<double>(t[4][1]), data<T>(t[3]), data<int32_t>(t[2]), kRows,
                                       kSize, kFirst, gradient);
        },
        [=](Tensors& t) {
          composite::largest_logit(t[3], t[0]);
          composite::exp_sums(t[0], t[4], t[3], t[2], kFirst, gradient);
          composite::split_cross_entropy(t[0], t[1], t[4], t[3], t[2], kFirst, gradient);
        });
}

TYPED_TEST(CrossEntropyKernel, ALongVocabulary) {
  expect_cross_entropy<TypeParam>(normal({3, 50257}, kType<TypeParam>, 1), targets_of(3, 50257), true);
}

// A shift of all logits changes nothing, and differences past the range of exp neither overflow nor give NaN.
TYPED_TEST(CrossEntropyKernel, LargeLogits) {
  using T = TypeParam;
  const at::Tensor logits =
      at::tensor({1000.0, 1000.0, -1000.0, 3008.0, 0.0, 0.0}, at::kDouble).to(kType<T>).view({2, 3});
  const at::Tensor targets = at::tensor({1, 2}, at::kInt), losses = at::zeros({2}, at::kDouble);
  kernels::cross_entropy(data<T>(logits), data<double>(losses), data<int32_t>(targets), 2, 3, true);
  EXPECT_NEAR(losses[0].template item<double>(), std::log(2.0), 1e-6);
  EXPECT_NEAR(losses[1].template item<double>(), 3008, 1e-3);
  const at::Tensor right = at::tensor({0.5, -0.5, 0.0, 1.0, 0.0, -1.0}, at::kDouble).view({2, 3});
  EXPECT_LE(relative_error(logits, right), epsilon(kType<T>));
}

TYPED_TEST(CrossEntropyKernel, NanGivesANanLoss) {
  using T = TypeParam;
  const at::Tensor logits = normal({1, 70}, kType<T>, 1), targets = at::tensor({3}, at::kInt);
  logits[0][41] = std::nan("");
  const at::Tensor losses = at::zeros({1}, at::kDouble);
  kernels::cross_entropy(data<T>(logits), data<double>(losses), data<int32_t>(targets), 1, 70, true);
  EXPECT_TRUE(std::isnan(losses.template item<double>()));
}

}  // namespace
}  // namespace muster::nn
