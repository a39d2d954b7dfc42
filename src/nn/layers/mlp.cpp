#include "nn/layers/mlp.h"

#include "nn/layers/residual.h"
#include "nn/layers/split_linear.h"
#include "nn/ops/activation.h"

namespace muster::nn {

at::Tensor MlpLayer::forward(Executor& run, const at::Tensor& residual_MH, const Dropout& dropout,
                             Saved* saved) const {
  Saved kept;
  kept.residual_MH = residual_MH;
  kept.up_NG = normed_linear(run, group_, kept.norm, residual_MH, p_.up);
  const at::Tensor h_NF = run.empty({kept.up_NG.size(0), size_}, Category::temporary);
  activation_ == Activation::swiglu ? swiglu(run, h_NF, kept.up_NG) : gelu(run, h_NF, kept.up_NG);
  const at::Tensor out_MH = run.empty(residual_MH.sizes(), Category::activations);
  row_linear(run, group_, out_MH, h_NF, *p_.down, value_or_none(p_.down_bias));
  add_residual(run, out_MH, residual_MH, dropout);
  if (saved) *saved = std::move(kept);
  return out_MH;
}

void MlpLayer::backward(Executor& run, at::Tensor d_MH, const Dropout& dropout, Saved& saved) const {
  {
    const BranchGradient branch(run, d_MH, dropout);
    GatheredRows d(run, group_, branch.tensor());
    const at::Tensor dh_NF = run.empty({saved.up_NG.size(0), size_}, Category::temporary);
    row_linear_backward_input(run, dh_NF, d, *p_.down);
    activation_ == Activation::swiglu ? swiglu_backward(run, saved.up_NG, dh_NF)
                                      : gelu_backward(run, saved.up_NG, dh_NF);
    const at::Tensor& h_NF = dh_NF;  // the backward of the activation left the product there
    row_linear_backward_weight(run, *p_.down, p_.down_bias, d, h_NF);
  }
  normed_linear_backward(run, group_, d_MH, saved.up_NG, saved.norm, saved.residual_MH, p_.up);
  saved = {};
}

}  // namespace muster::nn
