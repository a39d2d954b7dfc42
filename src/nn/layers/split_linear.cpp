#include "nn/layers/split_linear.h"

#include "nn/ops/elementwise.h"
#include "nn/ops/linear.h"

namespace muster::nn {

void row_linear(Executor& run, const TensorGroup& group, at::Tensor y_NO, const at::Tensor& x_NI,
                const Weight& weight, const Weight& bias) {
  linear(run, y_NO, x_NI, weight, {});
  group.all_reduce(y_NO).wait();
  if (bias.defined()) add_bias(run, y_NO, bias);
}

void column_linear_backward(Executor& run, const TensorGroup& group, at::Tensor dx_NI, Weight& weight,
                            Weight& bias, const at::Tensor& dy_NO, const at::Tensor& x_NI) {
  if (!group.is_split()) {
    linear_backward_weight(run, weight, bias, dy_NO, x_NI);
    linear_backward_input(run, dx_NI, dy_NO, weight);
    return;
  }
  linear_backward_input(run, dx_NI, dy_NO, weight);
  comm::Pending sum = group.all_reduce(dx_NI);
  linear_backward_weight(run, weight, bias, dy_NO, x_NI);
  sum.wait();
}

at::Tensor gradient_beside(const Executor& run, const TensorGroup& group, const at::Tensor& x_NI) {
  return group.is_split() ? run.empty(x_NI.sizes(), Category::temporary) : x_NI;
}

}  // namespace muster::nn
