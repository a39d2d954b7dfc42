#include "nn/ops/elementwise.h"

#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"

namespace muster::nn {
void add_bias(Executor& run, at::Tensor x_NO, const Weight& bias) {
  run.run("add_bias", {0, bytes_of(x_NO, 2)}, [&] {
    if (!x_NO.is_cpu()) return composite::add_bias(x_NO, bias.value);
    with_type(x_NO, [&](auto zero) {
      using T = decltype(zero);
      kernels::add_bias(data<T>(x_NO), data<T>(bias.value), x_NO.size(0), x_NO.size(1));
    });
  });
}

void sum_rows(Executor& run, Weight& weight, const at::Tensor& x_NS, int64_t groups) {
  const bool add = weight.accumulate();
  run.run("sum_rows", {0, bytes_of(x_NS, 1)}, [&] {
    if (!x_NS.is_cpu()) return composite::sum_rows(weight.gradient, add, x_NS, groups);
    with_types(x_NS, weight.gradient, [&](auto zero, auto zero_gradient) {
      using T = decltype(zero);
      kernels::sum_rows(data<decltype(zero_gradient)>(weight.gradient), add, data<T>(x_NS), x_NS.size(0),
                        x_NS.size(1), groups);
    });
  });
}

void add_to(Executor& run, at::Tensor y, const at::Tensor& x) {
  run.run("add", {0, bytes_of(y, 3)}, [&] { y.add_(x); });
}

void drop(Executor& run, at::Tensor out, const at::Tensor& x, const Dropout& dropout) {
  run.run("dropout", {0, bytes_of(x, 2)}, [&] {
    // Draws belong to logical positions, so every device takes the host's.
    const at::Tensor from = x.cpu(), to = out.is_cpu() ? out : at::empty_like(from);
    const int64_t width = x.size(1);
    with_type(from, [&](auto zero) {
      using T = decltype(zero);
      for (const RowRun& at : *dropout.rows)
        kernels::dropout(data<T>(to) + at.row * width, data<T>(from) + at.row * width, at.rows * width,
                         at.token * width, dropout.draw, dropout.key, dropout.probability);
    });
    if (!out.is_cpu()) out.copy_(to);
  });
}

}  // namespace muster::nn
