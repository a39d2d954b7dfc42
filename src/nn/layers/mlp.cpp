#include "nn/layers/mlp.h"

#include "nn/layers/residual.h"
#include "nn/layers/split_linear.h"
#include "nn/ops/activation.h"
#include "nn/ops/linear.h"

namespace muster::nn {

at::Tensor MlpLayer::forward(Executor& run, const at::Tensor& residual_NH, const Dropout& dropout, Keep keep,
                             Saved* saved) const {
  Saved all;
  all.residual_NH = residual_NH;
  restore(run, all);
  const at::Tensor out_NH = output(run, dropout, all);
  if (saved && keep != Keep::input) *saved = std::move(all);
  return out_NH;
}

void MlpLayer::restore(Executor& run, Saved& saved) const {
  if (saved.up_NG.defined()) return;
  const at::Tensor& residual_NH = saved.residual_NH;
  const at::Tensor normed_NH = run.empty(residual_NH.sizes(), Category::temporary);
  norm(run, normed_NH, saved.norm, residual_NH, p_.norm);
  saved.up_NG = run.empty({residual_NH.size(0), up_width()}, Category::activations);
  linear(run, saved.up_NG, normed_NH, *p_.up, value_or_none(p_.up_bias));
}

at::Tensor MlpLayer::output(Executor& run, const Dropout& dropout, const Saved& saved) const {
  const at::Tensor h_NF = run.empty({saved.up_NG.size(0), size_}, Category::temporary);
  activation_ == Activation::swiglu ? swiglu(run, h_NF, saved.up_NG) : gelu(run, h_NF, saved.up_NG);
  const at::Tensor out_NH = run.empty(saved.residual_NH.sizes(), Category::activations);
  row_linear(run, group_, out_NH, h_NF, *p_.down, value_or_none(p_.down_bias));
  add_residual(run, out_NH, saved.residual_NH, dropout);
  return out_NH;
}

KeepCosts MlpLayer::costs(int64_t rows) const {
  const int64_t hidden = p_.norm.weight->value.numel(), statistics = p_.norm.bias ? 2 : 1;
  const KeepCost all{rows * (hidden + statistics + up_width()), 0};
  return {{all, all, {0, 2.0 * static_cast<double>(rows * hidden * up_width())}}};
}

void MlpLayer::backward(Executor& run, at::Tensor d_NH, const Dropout& dropout, Saved& saved) const {
  Weight none;
  {
    const BranchGradient branch(run, d_NH, dropout);
    const at::Tensor dh_NF = run.empty({d_NH.size(0), size_}, Category::temporary);
    linear_backward_input(run, dh_NF, branch.tensor(), *p_.down);
    activation_ == Activation::swiglu ? swiglu_backward(run, saved.up_NG, dh_NF)
                                      : gelu_backward(run, saved.up_NG, dh_NF);
    const at::Tensor& h_NF = dh_NF;  // the backward of the activation left the product there
    linear_backward_weight(run, *p_.down, p_.down_bias ? *p_.down_bias : none, branch.tensor(), h_NF);
  }
  const at::Tensor normed_NH = run.empty(d_NH.sizes(), Category::temporary);
  norm_again(run, normed_NH, saved.norm, saved.residual_NH, p_.norm);
  const at::Tensor dnormed_NH = gradient_beside(run, group_, normed_NH);
  column_linear_backward(run, group_, dnormed_NH, *p_.up, p_.up_bias ? *p_.up_bias : none, saved.up_NG,
                         normed_NH);
  norm_backward(run, d_NH, dnormed_NH, saved.norm, saved.residual_NH, p_.norm);
  saved = {};
}

}  // namespace muster::nn
