#include "nn/ops/product.h"

#include "nn/test_support.h"

namespace muster::nn {
namespace {

struct Formats {
  at::ScalarType out, operands;
};
constexpr Formats kFormats[] = {{at::kFloat, at::kFloat},
                                {at::kDouble, at::kDouble},
                                {at::kBFloat16, at::kBFloat16},
                                {at::kFloat, at::kBFloat16}};

// Operands as layers give them: plain, transposed, and rows out of wider ones.
struct Operands {
  at::Tensor a, b;
};
std::vector<Operands> operands(int64_t rows, int64_t inner, int64_t columns, at::ScalarType dtype) {
  return {{normal({rows, inner}, dtype, 1), normal({inner, columns}, dtype, 2)},
          {normal({inner, rows}, dtype, 3).t(), normal({columns, inner}, dtype, 4).t()},
          {normal({rows, inner + 5}, dtype, 5).narrow(1, 3, inner), normal({inner, columns}, dtype, 6)}};
}

// The sum of `inner` products in any order errs by at most inner epsilons of the sum of their sizes, one more
// for what is added to.
void expect_product(const at::Tensor& measured, const at::Tensor& before, const Operands& o, bool adds) {
  const at::Tensor a = o.a.to(at::kDouble), b = o.b.to(at::kDouble);
  const at::Tensor right = adds ? before.to(at::kDouble) + a.mm(b) : a.mm(b);
  const double sizes = (a.abs().mm(b.abs()) + before.to(at::kDouble).abs()).max().item<double>();
  const double error = static_cast<double>(a.size(1) + 1) * epsilon(o.a.scalar_type()) * sizes;
  if (is_narrow(measured))
    EXPECT_LE(rounding_excess(measured, right, error), 0);
  else
    EXPECT_LE((measured.to(at::kDouble) - right).abs().max().item<double>(), error);
}

TEST(Product, InEveryPairOfFormatsRoundedOnce) {
  for (const Formats& formats : kFormats)
    for (const int64_t rows : {1, 33})
      for (const int64_t inner : {1, 7, 200})
        for (const Operands& o : operands(rows, inner, 18, formats.operands)) {
          SCOPED_TRACE(::testing::Message() << c10::toString(formats.operands) << " into "
                                            << c10::toString(formats.out) << ", " << rows << " " << inner);
          const at::Tensor before = normal({rows, 18}, formats.out, 9), out = before.clone();
          product_into(out, o.a, o.b);
          expect_product(out, before, o, /*adds=*/false);
          out.copy_(before);
          add_product(out, o.a, o.b);
          expect_product(out, before, o, /*adds=*/true);
        }
}

// CASES B068: over the rows of one product.
TEST(Product, B068SmallContributionsDoNotVanish) {
  const at::Tensor out = at::ones({3, 4}, at::kBFloat16);
  const at::Tensor a = at::full({3, 512}, 0x1p-9, at::kBFloat16), b = at::ones({512, 4}, at::kBFloat16);
  add_product(out, a, b);
  EXPECT_TRUE(out.eq(2).all().item<bool>()) << out[0][0].item<float>();
}

}  // namespace
}  // namespace muster::nn
