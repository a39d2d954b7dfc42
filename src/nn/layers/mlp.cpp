#include "nn/layers/mlp.h"

#include "nn/layers/residual.h"
#include "nn/layers/split_linear.h"
#include "nn/ops/activation.h"

namespace muster::nn {

at::Tensor MlpLayer::forward(Executor& run, const at::Tensor& residual_MH, const Dropout& dropout, Keep keep,
                             Saved* saved) const {
  Saved all;
  all.residual_MH = residual_MH;
  restore(run, all);
  const at::Tensor out_MH = output(run, dropout, all);
  if (saved && keep != Keep::input) *saved = std::move(all);
  return out_MH;
}

void MlpLayer::restore(Executor& run, Saved& saved) const {
  if (saved.up_NG.defined()) return;
  saved.up_NG = normed_linear(run, group_, saved.norm, saved.residual_MH, p_.up);
}

at::Tensor MlpLayer::output(Executor& run, const Dropout& dropout, const Saved& saved) const {
  const at::Tensor h_NF = run.empty({saved.up_NG.size(0), size_}, Category::temporary);
  activation_ == Activation::swiglu ? swiglu(run, h_NF, saved.up_NG) : gelu(run, h_NF, saved.up_NG);
  const at::Tensor out_MH = run.empty(saved.residual_MH.sizes(), Category::activations);
  row_linear(run, group_, out_MH, h_NF, *p_.down, value_or_none(p_.down_bias));
  add_residual(run, out_MH, saved.residual_MH, dropout);
  return out_MH;
}

KeepCosts MlpLayer::costs(int64_t rows, int64_t element_bytes, int64_t statistic_bytes) const {
  const int64_t hidden = p_.up.norm.weight->value.numel(), statistics = p_.up.norm.bias ? 2 : 1;
  const int64_t width = p_.up.weight->outputs(), here = rows / group_.row_shares();
  const KeepCost all{element_bytes * (here * hidden + rows * width) + statistic_bytes * here * statistics, 0};
  return {{all, all, {0, 2.0 * static_cast<double>(rows * hidden * width)}}};
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
