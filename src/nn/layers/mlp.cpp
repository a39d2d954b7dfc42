#include "nn/layers/mlp.h"

#include "nn/layers/residual.h"
#include "nn/layers/split_linear.h"
#include "nn/ops/activation.h"
#include "nn/ops/linear.h"

namespace muster::nn {

at::Tensor MlpLayer::forward(Executor& run, const at::Tensor& residual_NH, const Dropout& dropout,
                             Saved* saved) const {
  Saved kept;
  kept.residual_NH = residual_NH;
  const int64_t rows = residual_NH.size(0);
  {
    const at::Tensor normed_NH = run.empty(residual_NH.sizes(), Category::temporary);
    norm(run, normed_NH, kept.norm, residual_NH, p_.norm);
    kept.up_NG = run.empty({rows, up_width()}, Category::activations);
    linear(run, kept.up_NG, normed_NH, *p_.up, value_or_none(p_.up_bias));
  }
  const at::Tensor h_NF = run.empty({rows, size_}, Category::temporary);
  activation_ == Activation::swiglu ? swiglu(run, h_NF, kept.up_NG) : gelu(run, h_NF, kept.up_NG);
  const at::Tensor out_NH = run.empty(residual_NH.sizes(), Category::activations);
  row_linear(run, group_, out_NH, h_NF, *p_.down, value_or_none(p_.down_bias));
  add_residual(run, out_NH, residual_NH, dropout);
  if (saved) *saved = std::move(kept);
  return out_NH;
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
