#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"
#include "nn/test_support.h"

namespace muster::nn {
namespace {

template <class T>
class RowKernels : public ::testing::Test {};
TYPED_TEST_SUITE(RowKernels, Types);

constexpr int64_t kVocabulary = 11;

TYPED_TEST(RowKernels, Embed) {
  using T = TypeParam;
  over_shapes([](int64_t rows, int64_t size) {
    // The first id of a table that has all of them, or only some.
    for (const int64_t first : {0, 4, -7})
      expect_agreement<T>(
          {normal({rows, size}, kType<T>, 1), normal({kVocabulary, size}, kType<T>, 2),
           integers(0, kVocabulary, rows, 3)},
          1,
          [=](auto zero, Tensors& t) {
            using T = decltype(zero);
            kernels::embed(data<T>(t[0]), data<T>(t[1]), data<int32_t>(t[2]), rows, size, first, kVocabulary);
          },
          [=](Tensors& t) { composite::embed(t[0], t[1], t[2], first); });
  });
}

// 130 rows of 11 ids: every id comes many times.
TYPED_TEST(RowKernels, EmbedBackwardAdds) {
  using T = TypeParam;
  over_shapes_and_gradients<T>([](int64_t rows, int64_t size, at::ScalarType gradient) {
    for (const int64_t first : {0, 4, -7})
      expect_agreement<T>(
          {normal({kVocabulary, size}, gradient, 1), normal({rows, size}, kType<T>, 2),
           integers(0, kVocabulary, rows, 3)},
          16,
          [=](auto, Tensors& t) {
            with_types(t[1], t[0], [&]<class T, class G>(T, G) {
              kernels::embed_backward(data<G>(t[0]), data<T>(t[1]), data<int32_t>(t[2]), rows, size, first,
                                      kVocabulary);
            });
          },
          [=](Tensors& t) { composite::embed_backward(t[0], t[1], t[2], first); });
  });
}

TYPED_TEST(RowKernels, SumRows) {
  using T = TypeParam;
  over_shapes_and_gradients<T>([](int64_t rows, int64_t size, at::ScalarType gradient) {
    for (bool add : {false, true})
      for (int64_t groups : {int64_t{1}, rows, rows % 5 == 0 ? int64_t{5} : int64_t{1}})
        expect_agreement<T>(
            {normal({groups, size}, gradient, 1), normal({rows, size}, kType<T>, 2)}, 32,
            [=](auto, Tensors& t) {
              with_types(t[1], t[0], [&]<class T, class G>(T, G) {
                kernels::sum_rows(data<G>(t[0]), add, data<T>(t[1]), rows, size, groups);
              });
            },
            [=](Tensors& t) { composite::sum_rows(t[0], add, t[1], groups); });
  });
}

TYPED_TEST(RowKernels, AddBias) {
  using T = TypeParam;
  over_shapes([](int64_t rows, int64_t size) {
    expect_agreement<T>(
        {normal({rows, size}, kType<T>, 1), normal({size}, kType<T>, 2)}, 1,
        [=](auto zero, Tensors& t) {
          using T = decltype(zero);
          kernels::add_bias(data<T>(t[0]), data<T>(t[1]), rows, size);
        },
        [](Tensors& t) { composite::add_bias(t[0], t[1]); });
  });
}

TYPED_TEST(RowKernels, SumOfSquares) {
  using T = TypeParam;
  for (int64_t count : {0, 1, 17, 513, 65536, 200001}) {
    const at::Tensor x = normal({count}, kType<T>, 1);
    const double right = x.to(at::kDouble).square().sum().template item<double>();
    double one = 0, two = 0;
    {
      const Threads threads(1);
      one = kernels::sum_of_squares(data<T>(x), count);
    }
    {
      const Threads threads(2);
      two = kernels::sum_of_squares(data<T>(x), count);
    }
    EXPECT_EQ(one, two) << count;
    EXPECT_NEAR(one, right, right * 1e-13) << count;
  }
}

// CASES B068: what is less than half a unit of the sum counts where there is much of it.
TEST(Bfloat16Sums, B068SmallContributionsDoNotVanish) {
  constexpr int64_t kRows = 512, kSize = 20;
  const at::Tensor x = at::full({kRows, kSize}, 0x1p-9, at::kBFloat16);
  const at::Tensor sum = at::ones({kSize}, at::kBFloat16), table = at::ones({2, kSize}, at::kBFloat16);
  using T = c10::BFloat16;
  kernels::sum_rows(data<T>(sum), /*accumulate=*/true, data<T>(x), kRows, kSize, 1);
  EXPECT_TRUE(sum.eq(2).all().item<bool>()) << sum[0].item<float>();
  // Between them rows of the other id.
  const at::Tensor ids = at::arange(2 * kRows, at::kInt).remainder(2);
  kernels::embed_backward(data<T>(table), data<T>(x.repeat({2, 1})), data<int32_t>(ids), 2 * kRows, kSize, 0,
                          2);
  EXPECT_TRUE(table.eq(2).all().item<bool>()) << table[0][0].item<float>();
}

// The square of 1e30 is no float.
TEST(SumOfSquares, IsTakenInDouble) {
  const at::Tensor x = at::full({3}, 1e30, at::kFloat);
  EXPECT_NEAR(kernels::sum_of_squares(data<float>(x), 3) / 3e60, 1, 1e-6);
}

}  // namespace
}  // namespace muster::nn
