#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"
#include "nn/test_support.h"

namespace muster::nn {
namespace {

template <class T>
class ActivationKernels : public ::testing::Test {};
TYPED_TEST_SUITE(ActivationKernels, Types);

// Inputs of a standard deviation of 4 reach both ends of the sigmoid.
template <class T>
Tensors activation_tensors(int64_t rows, int64_t inputs, int64_t outputs) {
  return {4 * normal({rows, inputs}, kType<T>, 1), normal({rows, outputs}, kType<T>, 2)};
}

TYPED_TEST(ActivationKernels, Swiglu) {
  using T = TypeParam;
  over_shapes([](int64_t rows, int64_t size) {
    const Tensors t = activation_tensors<T>(rows, 2 * size, size);
    expect_agreement<T>(
        t, 8,
        [=](auto zero, Tensors& t) {
          using T = decltype(zero);
          kernels::swiglu(data<T>(t[1]), data<T>(t[0]), rows, size);
        },
        [](Tensors& t) { composite::swiglu(t[1], t[0]); });
    expect_agreement<T>(
        t, 16,
        [=](auto zero, Tensors& t) {
          using T = decltype(zero);
          kernels::swiglu_backward(data<T>(t[0]), data<T>(t[1]), rows, size);
        },
        [](Tensors& t) { composite::swiglu_backward(t[0], t[1]); });
  });
}

TYPED_TEST(ActivationKernels, Gelu) {
  using T = TypeParam;
  over_shapes([](int64_t rows, int64_t size) {
    const Tensors t = activation_tensors<T>(rows, size, size);
    expect_agreement<T>(
        t, 8,
        [](auto zero, Tensors& t) {
          using T = decltype(zero);
          kernels::gelu(data<T>(t[1]), data<T>(t[0]), t[0].numel());
        },
        [](Tensors& t) { composite::gelu(t[1], t[0]); });
    // 1 - tanh^2 cancels, and is multiplied by up to x(1 + x^2).
    expect_agreement<T>(
        t, 64,
        [](auto zero, Tensors& t) {
          using T = decltype(zero);
          kernels::gelu_backward(data<T>(t[0]), data<T>(t[1]), t[0].numel());
        },
        [](Tensors& t) { composite::gelu_backward(t[0], t[1]); });
  });
}

TYPED_TEST(ActivationKernels, FarOutTheyAreZeroOrTheIdentity) {
  using T = TypeParam;
  const at::Tensor a = at::tensor({-1e4, -200.0, 0.0, 200.0, 1e4}, at::kDouble).to(kType<T>),
                   h = at::empty_like(a);
  const at::Tensor right = at::tensor({0.0, 0.0, 0.0, 200.0, 1e4}, at::kDouble).to(kType<T>);
  kernels::gelu(data<T>(h), data<T>(a), 5);
  EXPECT_LE(relative_error(h, right), epsilon(kType<T>));
  const at::Tensor gate_up = at::stack({a, at::ones_like(a)}, 1).contiguous();
  kernels::swiglu(data<T>(h), data<T>(gate_up), 5, 1);
  EXPECT_LE(relative_error(h, right), epsilon(kType<T>));
}

TYPED_TEST(ActivationKernels, NanStaysNan) {
  using T = TypeParam;
  const at::Tensor a = at::full({40}, std::nan(""), kType<T>), h = at::zeros({20}, kType<T>);
  kernels::swiglu(data<T>(h), data<T>(a), 1, 20);
  EXPECT_TRUE(h.isnan().all().template item<bool>());
  kernels::gelu(data<T>(h), data<T>(a), 20);
  EXPECT_TRUE(h.isnan().all().template item<bool>());
}

}  // namespace
}  // namespace muster::nn
