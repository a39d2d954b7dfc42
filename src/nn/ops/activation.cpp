#include "nn/ops/activation.h"

#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"

namespace muster::nn {
namespace {

Cost cost(const at::Tensor& a, const at::Tensor& b) {
  return {0, static_cast<int64_t>(a.nbytes() + b.nbytes())};
}

}  // namespace

void swiglu(Executor& run, at::Tensor h_NF, const at::Tensor& gate_up_NG) {
  run.run("swiglu", cost(h_NF, gate_up_NG), [&] {
    if (!h_NF.is_cpu()) return composite::swiglu(h_NF, gate_up_NG);
    with_type(h_NF, [&](auto zero) {
      using T = decltype(zero);
      kernels::swiglu(data<T>(h_NF), data<T>(gate_up_NG), h_NF.size(0), h_NF.size(1));
    });
  });
}

void swiglu_backward(Executor& run, at::Tensor gate_up_NG, at::Tensor dh_NF) {
  run.run("swiglu_backward", cost(dh_NF, gate_up_NG), [&] {
    if (!dh_NF.is_cpu()) return composite::swiglu_backward(gate_up_NG, dh_NF);
    with_type(dh_NF, [&](auto zero) {
      using T = decltype(zero);
      kernels::swiglu_backward(data<T>(gate_up_NG), data<T>(dh_NF), dh_NF.size(0), dh_NF.size(1));
    });
  });
}

void gelu(Executor& run, at::Tensor h_NF, const at::Tensor& a_NF) {
  run.run("gelu", cost(h_NF, a_NF), [&] {
    if (!h_NF.is_cpu()) return composite::gelu(h_NF, a_NF);
    with_type(h_NF, [&](auto zero) {
      using T = decltype(zero);
      kernels::gelu(data<T>(h_NF), data<T>(a_NF), h_NF.numel());
    });
  });
}

void gelu_backward(Executor& run, at::Tensor a_NF, at::Tensor dh_NF) {
  run.run("gelu_backward", cost(dh_NF, a_NF), [&] {
    if (!dh_NF.is_cpu()) return composite::gelu_backward(a_NF, dh_NF);
    with_type(dh_NF, [&](auto zero) {
      using T = decltype(zero);
      kernels::gelu_backward(data<T>(a_NF), data<T>(dh_NF), dh_NF.numel());
    });
  });
}

}  // namespace muster::nn
