#include "nn/ops/linear.h"

#include "nn/ops/elementwise.h"
#include "nn/ops/product.h"

namespace muster::nn {
namespace {

Cost matmul_cost(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, int64_t inner) {
  return {2.0 * static_cast<double>(c.numel()) * static_cast<double>(inner),
          static_cast<int64_t>(a.nbytes() + b.nbytes() + c.nbytes())};
}

at::Tensor out_in(const Weight& weight) {
  return weight.stored_in_out ? weight.value.t() : weight.value;
}

}  // namespace

void linear(Executor& run, at::Tensor y_NO, const at::Tensor& x_NI, const Weight& weight,
            const Weight& bias) {
  run.run("matmul", matmul_cost(x_NI, weight.value, y_NO, x_NI.size(1)),
          [&] { product_into(y_NO, x_NI, out_in(weight).t()); });
  if (bias.defined()) add_bias(run, y_NO, bias);
}

void linear_backward_input(Executor& run, at::Tensor dx_NI, const at::Tensor& dy_NO, const Weight& weight) {
  run.run("matmul", matmul_cost(dy_NO, weight.value, dx_NI, dy_NO.size(1)),
          [&] { product_into(dx_NI, dy_NO, out_in(weight)); });
}

void linear_backward_weight(Executor& run, Weight& weight, Weight& bias, const at::Tensor& dy_NO,
                            const at::Tensor& x_NI) {
  const bool add = weight.accumulate();
  const at::Tensor& left = weight.stored_in_out ? x_NI : dy_NO;
  const at::Tensor& right = weight.stored_in_out ? dy_NO : x_NI;
  run.run("matmul", matmul_cost(left, right, weight.gradient, dy_NO.size(0)), [&] {
    if (add)
      add_product(weight.gradient, left.t(), right);
    else
      product_into(weight.gradient, left.t(), right);
  });
  if (bias.defined()) sum_rows(run, bias, dy_NO, 1);
}

}  // namespace muster::nn
