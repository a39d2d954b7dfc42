#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"
#include "nn/test_support.h"

namespace muster::nn {
namespace {

using kernels::wide_t;

template <class T>
class RotaryKernels : public ::testing::Test {};
TYPED_TEST_SUITE(RotaryKernels, Types);

constexpr int64_t kLength = 13, kRest = 5;  // positions; elements of a row behind the heads

struct Shape {
  int64_t rows, heads, head_dim;
  int64_t used() const { return heads * head_dim; }
};
const Shape kShapes[] = {{13, 1, 2}, {26, 3, 6}, {130, 4, 34}, {130, 6, 64}};

template <class T>
Tensors table(int64_t half) {
  const at::Tensor angle = normal({kLength, half}, at::kDouble, 7);
  return {angle.cos().to(kStatistic<T>), angle.sin().to(kStatistic<T>)};
}

at::Tensor heads_of(const at::Tensor& rows, const Shape& s) {
  return rows.narrow(1, 0, s.used()).view({s.rows, s.heads, s.head_dim});
}

TYPED_TEST(RotaryKernels, TurnsTheFirstHeadsOfARow) {
  using T = TypeParam;
  for (const Shape& s : kShapes) {
    Tensors t = table<T>(s.head_dim / 2);
    t.insert(t.begin(), normal({s.rows, s.used() + kRest}, kType<T>, 1));
    expect_agreement<T>(
        t, 4,
        [&](auto zero, Tensors& t) {
          using T = decltype(zero);
          kernels::rotate(data<T>(t[0]), data<wide_t<T>>(t[1]), data<wide_t<T>>(t[2]), s.rows, kLength,
                          s.heads, s.head_dim, s.used() + kRest);
        },
        [&](Tensors& t) { composite::rotate(heads_of(t[0], s), t[1], t[2], /*back=*/false); });
  }
}

TYPED_TEST(RotaryKernels, TurnsBackIntoOtherRows) {
  using T = TypeParam;
  for (const Shape& s : kShapes) {
    Tensors t = table<T>(s.head_dim / 2);
    t.insert(t.begin(), normal({s.rows, s.used() + kRest}, kType<T>, 1));
    t.push_back(normal({s.rows, s.used()}, kType<T>, 2));
    expect_agreement<T>(
        t, 4,
        [&](auto zero, Tensors& t) {
          using T = decltype(zero);
          kernels::rotate_back(data<T>(t[0]), data<T>(t[3]), data<wide_t<T>>(t[1]), data<wide_t<T>>(t[2]),
                               s.rows, kLength, s.heads, s.head_dim, s.used() + kRest, s.used());
        },
        [&](Tensors& t) {
          heads_of(t[0], s).copy_(heads_of(t[3], s));
          composite::rotate(heads_of(t[0], s), t[1], t[2], /*back=*/true);
        });
  }
}

}  // namespace
}  // namespace muster::nn
