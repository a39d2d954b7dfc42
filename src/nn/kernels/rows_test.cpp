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
      expect_agreement(
          {normal({rows, size}, kType<T>, 1), normal({kVocabulary, size}, kType<T>, 2),
           integers(0, kVocabulary, rows, 3)},
          1,
          [=](Tensors& t) {
            kernels::embed(data<T>(t[0]), data<T>(t[1]), data<int32_t>(t[2]), rows, size, first, kVocabulary);
          },
          [=](Tensors& t) { composite::embed(t[0], t[1], t[2], first); });
  });
}

// 130 rows of 11 ids: every id comes many times.
TYPED_TEST(RowKernels, EmbedBackwardAdds) {
  using T = TypeParam;
  over_shapes([](int64_t rows, int64_t size) {
    for (const int64_t first : {0, 4, -7})
      expect_agreement(
          {normal({kVocabulary, size}, kType<T>, 1), normal({rows, size}, kType<T>, 2),
           integers(0, kVocabulary, rows, 3)},
          16,
          [=](Tensors& t) {
            kernels::embed_backward(data<T>(t[0]), data<T>(t[1]), data<int32_t>(t[2]), rows, size, first,
                                    kVocabulary);
          },
          [=](Tensors& t) { composite::embed_backward(t[0], t[1], t[2], first); });
  });
}

TYPED_TEST(RowKernels, SumRows) {
  using T = TypeParam;
  over_shapes([](int64_t rows, int64_t size) {
    for (bool add : {false, true})
      for (int64_t groups : {int64_t{1}, rows, rows % 5 == 0 ? int64_t{5} : int64_t{1}})
        expect_agreement(
            {normal({groups, size}, kType<T>, 1), normal({rows, size}, kType<T>, 2)}, 32,
            [=](Tensors& t) { kernels::sum_rows(data<T>(t[0]), add, data<T>(t[1]), rows, size, groups); },
            [=](Tensors& t) { composite::sum_rows(t[0], add, t[1], groups); });
  });
}

TYPED_TEST(RowKernels, AddBias) {
  using T = TypeParam;
  over_shapes([](int64_t rows, int64_t size) {
    expect_agreement(
        {normal({rows, size}, kType<T>, 1), normal({size}, kType<T>, 2)}, 1,
        [=](Tensors& t) { kernels::add_bias(data<T>(t[0]), data<T>(t[1]), rows, size); },
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

// The square of 1e30 is no float.
TEST(SumOfSquares, IsTakenInDouble) {
  const at::Tensor x = at::full({3}, 1e30, at::kFloat);
  EXPECT_NEAR(kernels::sum_of_squares(data<float>(x), 3) / 3e60, 1, 1e-6);
}

}  // namespace
}  // namespace muster::nn
