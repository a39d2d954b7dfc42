#include "nn/layers/split_linear.h"

#include "nn/ops/elementwise.h"
#include "nn/ops/linear.h"

namespace muster::nn {

void column_linear(Executor& run, const TensorGroup& group, at::Tensor y_NO, const at::Tensor& x_MI,
                   const Weight& weight, const Weight& bias) {
  GatheredRows x(run, group, x_MI);
  x.for_each_run([&](const at::Tensor& x_RI, int64_t first, int64_t rows) {
    linear(run, y_NO.narrow(0, first, rows), x_RI, weight, bias);
  });
}

void column_linear_backward(Executor& run, const TensorGroup& group, at::Tensor dx_MI, Weight& weight,
                            Weight& bias, const at::Tensor& dy_NO, const at::Tensor& x_MI) {
  if (!group.is_split()) {
    linear_backward_weight(run, weight, bias, dy_NO, x_MI);
    linear_backward_input(run, dx_MI, dy_NO, weight);
    return;
  }
  GatheredRows x(run, group, x_MI);
  SummedRows dx(run, group, dx_MI);
  dx.for_each_run([&](const at::Tensor& dx_RI, int64_t first, int64_t rows) {
    linear_backward_input(run, dx_RI, dy_NO.narrow(0, first, rows), weight);
  });
  linear_backward_weight(run, weight, bias, dy_NO, x.whole());
  dx.wait();
}

at::Tensor gradient_beside(const Executor& run, const TensorGroup& group, const at::Tensor& x_MI) {
  return group.is_split() ? run.empty(x_MI.sizes(), Category::temporary) : x_MI;
}

void row_linear(Executor& run, const TensorGroup& group, at::Tensor y_MO, const at::Tensor& x_NI,
                const Weight& weight, const Weight& bias) {
  {
    SummedRows y(run, group, y_MO);
    y.for_each_run([&](const at::Tensor& y_RO, int64_t first, int64_t rows) {
      linear(run, y_RO, x_NI.narrow(0, first, rows), weight, {});
    });
    y.wait();
  }
  if (bias.defined()) add_bias(run, y_MO, bias);
}

void row_linear_backward_input(Executor& run, at::Tensor dx_NI, GatheredRows& dy, const Weight& weight) {
  dy.for_each_run([&](const at::Tensor& dy_RO, int64_t first, int64_t rows) {
    linear_backward_input(run, dx_NI.narrow(0, first, rows), dy_RO, weight);
  });
}

void row_linear_backward_weight(Executor& run, Weight& weight, Weight* bias, GatheredRows& dy,
                                const at::Tensor& x_NI) {
  Weight none;
  linear_backward_weight(run, weight, none, dy.whole(), x_NI);
  if (bias) sum_rows(run, *bias, dy.own(), 1);
}

}  // namespace muster::nn
