#include "nn/layers/attention.h"

#include "nn/layers/residual.h"
#include "nn/layers/split_linear.h"
#include "nn/ops/linear.h"

namespace muster::nn {

at::Tensor AttentionLayer::forward(Executor& run, const at::Tensor& residual_NH, const Positions& positions,
                                   const RotaryTable& rotary, const Dropout& dropout, Saved* saved) const {
  Saved kept;
  kept.residual_NH = residual_NH;
  {
    const at::Tensor normed_NH = run.empty(residual_NH.sizes(), Category::temporary);
    norm(run, normed_NH, kept.norm, residual_NH, p_.norm);
    kept.qkv_NE = run.empty({residual_NH.size(0), heads_.row()}, Category::activations);
    linear(run, kept.qkv_NE, normed_NH, *p_.qkv, value_or_none(p_.qkv_bias));
  }
  if (rotary.defined()) rotate(run, kept.qkv_NE, heads_, rotary, positions.runs);
  kept.attention = context_attention(run, context_, kept.qkv_NE, positions, heads_, saved != nullptr);
  const at::Tensor out_NH = run.empty(residual_NH.sizes(), Category::activations);
  row_linear(run, group_, out_NH, kept.attention.out_NQ, *p_.out, value_or_none(p_.out_bias));
  add_residual(run, out_NH, residual_NH, dropout);
  if (saved) *saved = std::move(kept);
  return out_NH;
}

void AttentionLayer::backward(Executor& run, at::Tensor d_NH, const Positions& positions, const RotaryTable& rotary,
                              const Dropout& dropout, Saved& saved) const {
  Weight none;
  {
    ContextBackward backward(run, context_, saved.qkv_NE, saved.attention, positions, heads_);
    const BranchGradient branch(run, d_NH, dropout);
    const at::Tensor dout_NQ = run.empty(saved.attention.out_NQ.sizes(), Category::temporary);
    linear_backward_input(run, dout_NQ, branch.tensor(), *p_.out);
    linear_backward_weight(run, *p_.out, p_.out_bias ? *p_.out_bias : none, branch.tensor(),
                           saved.attention.out_NQ);
    backward.run(dout_NQ);
    if (rotary.defined()) rotate(run, saved.qkv_NE, heads_, rotary, positions.runs, /*back=*/true);
  }
  saved.attention = {};
  const at::Tensor normed_NH = run.empty(d_NH.sizes(), Category::temporary);
  norm_again(run, normed_NH, saved.norm, saved.residual_NH, p_.norm);
  const at::Tensor dnormed_NH = gradient_beside(run, group_, normed_NH);
  column_linear_backward(run, group_, dnormed_NH, *p_.qkv, p_.qkv_bias ? *p_.qkv_bias : none, saved.qkv_NE,
                         normed_NH);
  norm_backward(run, d_NH, dnormed_NH, saved.norm, saved.residual_NH, p_.norm);
  saved = {};
}

}  // namespace muster::nn
