#include "nn/ops/norm.h"

#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"

namespace muster::nn {
namespace {

Cost cost(const at::Tensor& x, int64_t passes) {
  return {0, passes * static_cast<int64_t>(x.nbytes())};
}

}  // namespace

void norm(Executor& run, at::Tensor y_NH, NormSaved& saved, const at::Tensor& x_NH, const Norm& layer) {
  const int64_t rows = x_NH.size(0), size = x_NH.size(1);
  saved.rstd_N = run.empty({rows}, Category::activations, run.statistics_dtype());
  if (layer.bias) saved.mean_N = run.empty({rows}, Category::activations, run.statistics_dtype());
  const at::Tensor& w = layer.weight->value;
  if (!layer.bias) {
    run.run("rms_norm", cost(x_NH, 2), [&] {
      if (!x_NH.is_cpu()) return composite::rms_norm(y_NH, saved.rstd_N, x_NH, w, layer.eps);
      with_type(x_NH, [&](auto zero) {
        using T = decltype(zero);
        kernels::rms_norm(data<T>(y_NH), data<kernels::wide_t<T>>(saved.rstd_N), data<T>(x_NH), data<T>(w),
                          rows, size, layer.eps);
      });
    });
    return;
  }
  const at::Tensor& b = layer.bias->value;
  run.run("layer_norm", cost(x_NH, 2), [&] {
    if (!x_NH.is_cpu()) return composite::layer_norm(y_NH, saved.mean_N, saved.rstd_N, x_NH, w, b, layer.eps);
    with_type(x_NH, [&](auto zero) {
      using T = decltype(zero);
      kernels::layer_norm(data<T>(y_NH), data<kernels::wide_t<T>>(saved.mean_N),
                          data<kernels::wide_t<T>>(saved.rstd_N), data<T>(x_NH), data<T>(w), data<T>(b), rows,
                          size, layer.eps);
    });
  });
}

void norm_again(Executor& run, at::Tensor y_NH, const NormSaved& saved, const at::Tensor& x_NH,
                const Norm& layer) {
  const int64_t rows = x_NH.size(0), size = x_NH.size(1);
  const at::Tensor& w = layer.weight->value;
  run.run(layer.bias ? "layer_norm" : "rms_norm", cost(x_NH, 2), [&] {
    if (!x_NH.is_cpu()) {
      if (!layer.bias) return composite::rms_norm_again(y_NH, saved.rstd_N, x_NH, w);
      return composite::layer_norm_again(y_NH, saved.mean_N, saved.rstd_N, x_NH, w, layer.bias->value);
    }
    with_type(x_NH, [&](auto zero) {
      using T = decltype(zero);
      if (!layer.bias)
        kernels::rms_norm_again(data<T>(y_NH), data<kernels::wide_t<T>>(saved.rstd_N), data<T>(x_NH),
                                data<T>(w), rows, size);
      else
        kernels::layer_norm_again(data<T>(y_NH), data<kernels::wide_t<T>>(saved.mean_N),
                                  data<kernels::wide_t<T>>(saved.rstd_N), data<T>(x_NH), data<T>(w),
                                  data<T>(layer.bias->value), rows, size);
    });
  });
}

void norm_backward(Executor& run, at::Tensor dx_NH, const at::Tensor& dy_NH, const NormSaved& saved,
                   const at::Tensor& x_NH, const Norm& layer) {
  const int64_t rows = x_NH.size(0), size = x_NH.size(1);
  Weight& weight = *layer.weight;
  const bool add_w = weight.accumulate();
  const bool add_b = layer.bias && layer.bias->accumulate();
  run.run(layer.bias ? "layer_norm_backward" : "rms_norm_backward", cost(x_NH, 4), [&] {
    if (!x_NH.is_cpu()) {
      if (!layer.bias)
        return composite::rms_norm_backward(dx_NH, weight.gradient, add_w, dy_NH, x_NH, saved.rstd_N,
                                            weight.value);
      return composite::layer_norm_backward(dx_NH, weight.gradient, layer.bias->gradient, add_w, add_b, dy_NH,
                                            x_NH, saved.mean_N, saved.rstd_N, weight.value);
    }
    with_types(x_NH, weight.gradient, [&](auto zero, auto zero_gradient) {
      using T = decltype(zero);
      using G = decltype(zero_gradient);
      if (!layer.bias)
        kernels::rms_norm_backward(data<T>(dx_NH), data<G>(weight.gradient), add_w, data<T>(dy_NH),
                                   data<T>(x_NH), data<kernels::wide_t<T>>(saved.rstd_N),
                                   data<T>(weight.value), rows, size);
      else
        kernels::layer_norm_backward(
            data<T>(dx_NH), data<G>(weight.gradient), data<G>(layer.bias->gradient), add_w, add_b,
            data<T>(dy_NH), data<T>(x_NH), data<kernels::wide_t<T>>(saved.mean_N),
            data<kernels::wide_t<T>>(saved.rstd_N), data<T>(weight.value), rows, size);
    });
  });
}

}  // namespace muster::nn
