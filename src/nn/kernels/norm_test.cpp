#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"
#include "nn/test_support.h"

namespace muster::nn {
namespace {

using kernels::wide_t;

constexpr double kEps = 1e-2;

template <class T>
class NormKernels : public ::testing::Test {};
TYPED_TEST_SUITE(NormKernels, Types);

// x, w, b, dy, y, mean, rstd, dx, dw, db: outputs hold numbers before, so that what is not written shows.
template <class T>
Tensors norm_tensors(int64_t rows, int64_t size, at::ScalarType gradient = kType<T>) {
  Tensors t;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const bool by_column = seed == 1 || seed == 2 || seed > 7, by_row = seed == 5 || seed == 6;
    t.push_back(by_column ? normal({size}, seed > 7 ? gradient : kType<T>, seed)
                : by_row  ? normal({rows}, kStatistic<T>, seed)
                          : normal({rows, size}, kType<T>, seed));
  }
  t[0] += 3;  // a mean that cancels badly in the one-pass formula
  return t;
}

TYPED_TEST(NormKernels, RmsNorm) {
  using T = TypeParam;
  over_shapes([](int64_t rows, int64_t size) {
    expect_agreement<T>(
        norm_tensors<T>(rows, size), 16,
        [=](auto zero, Tensors& t) {
          using T = decltype(zero);
          kernels::rms_norm(data<T>(t[4]), data<wide_t<T>>(t[6]), data<T>(t[0]), data<T>(t[1]), rows, size,
                            kEps);
        },
        [=](Tensors& t) { composite::rms_norm(t[4], t[6], t[0], t[1], kEps); });
  });
}

TYPED_TEST(NormKernels, LayerNorm) {
  using T = TypeParam;
  over_shapes([](int64_t rows, int64_t size) {
    expect_agreement<T>(
        norm_tensors<T>(rows, size), 64,
        [=](auto zero, Tensors& t) {
          using T = decltype(zero);
          kernels::layer_norm(data<T>(t[4]), data<wide_t<T>>(t[5]), data<wide_t<T>>(t[6]), data<T>(t[0]),
                              data<T>(t[1]), data<T>(t[2]), rows, size, kEps);
        },
        [=](Tensors& t) { composite::layer_norm(t[4], t[5], t[6], t[0], t[1], t[2], kEps); });
  });
}

TYPED_TEST(NormKernels, AgainGivesTheSameBits) {
  using T = TypeParam;
  over_shapes([](int64_t rows, int64_t size) {
    Tensors t = norm_tensors<T>(rows, size);
    const at::Tensor again = at::empty_like(t[4]);
    kernels::rms_norm(data<T>(t[4]), data<wide_t<T>>(t[6]), data<T>(t[0]), data<T>(t[1]), rows, size, kEps);
    kernels::rms_norm_again(data<T>(again), data<wide_t<T>>(t[6]), data<T>(t[0]), data<T>(t[1]), rows, size);
    EXPECT_TRUE(again.equal(t[4]));
    kernels::layer_norm(data<T>(t[4]), data<wide_t<T>>(t[5]), data<wide_t<T>>(t[6]), data<T>(t[0]),
                        data<T>(t[1]), data<T>(t[2]), rows, size, kEps);
    kernels::layer_norm_again(data<T>(again), data<wide_t<T>>(t[5]), data<wide_t<T>>(t[6]), data<T>(t[0]),
                              data<T>(t[1]), data<T>(t[2]), rows, size);
    EXPECT_TRUE(again.equal(t[4]));
  });
}

// The statistics are inputs here, so that they need not be those of x.
TYPED_TEST(NormKernels, RmsNormBackward) {
  using T = TypeParam;
  for (bool add : {false, true})
    over_shapes_and_gradients<T>([add](int64_t rows, int64_t size, at::ScalarType gradient) {
      expect_agreement<T>(
          norm_tensors<T>(rows, size, gradient), 64,
          [=](auto, Tensors& t) {
            with_types(t[0], t[8], [&]<class T, class G>(T, G) {
              kernels::rms_norm_backward(data<T>(t[7]), data<G>(t[8]), add, data<T>(t[3]), data<T>(t[0]),
                                         data<wide_t<T>>(t[6]), data<T>(t[1]), rows, size);
            });
          },
          [=](Tensors& t) { composite::rms_norm_backward(t[7], t[8], add, t[3], t[0], t[6], t[1]); });
    });
}

TYPED_TEST(NormKernels, LayerNormBackward) {
  using T = TypeParam;
  for (int add = 0; add < 4; ++add)
    over_shapes_and_gradients<T>([add](int64_t rows, int64_t size, at::ScalarType gradient) {
      const bool add_w = add & 1, add_b = add & 2;
      expect_agreement<T>(
          norm_tensors<T>(rows, size, gradient), 64,
          [=](auto, Tensors& t) {
            with_types(t[0], t[8], [&]<class T, class G>(T, G) {
              kernels::layer_norm_backward(data<T>(t[7]), data<G>(t[8]), data<G>(t[9]), add_w, add_b,
                                           data<T>(t[3]), data<T>(t[0]), data<wide_t<T>>(t[5]),
                                           data<wide_t<T>>(t[6]), data<T>(t[1]), rows, size);
            });
          },
          [=](Tensors& t) {
            composite::layer_norm_backward(t[7], t[8], t[9], add_w, add_b, t[3], t[0], t[5], t[6], t[1]);
          });
    });
}

}  // namespace
}  // namespace muster::nn
