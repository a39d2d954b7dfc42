#include "nn/layers/attention.h"

#include "nn/layers/residual.h"
#include "nn/layers/split_linear.h"
#include "nn/ops/linear.h"

namespace muster::nn {

at::Tensor AttentionLayer::forward(Executor& run, const at::Tensor& residual_NH, int64_t length,
                                   const RotaryTable& rotary, const Dropout& dropout, Keep keep,
                                   Saved* saved) const {
  Saved all;
  all.residual_NH = residual_NH;
  restore(run, length, rotary, all);
  const at::Tensor out_NH = output(run, dropout, all);
  if (!saved) return out_NH;
  if (keep == Keep::input) {
    all = {};
    all.residual_NH = residual_NH;
  }
  if (keep == Keep::all_but_core) all.attention = {};
  *saved = std::move(all);
  return out_NH;
}

void AttentionLayer::restore(Executor& run, int64_t length, const RotaryTable& rotary, Saved& saved) const {
  if (!saved.qkv_NE.defined()) {
    const at::Tensor& residual_NH = saved.residual_NH;
    const at::Tensor normed_NH = run.empty(residual_NH.sizes(), Category::temporary);
    norm(run, normed_NH, saved.norm, residual_NH, p_.norm);
    saved.qkv_NE = run.empty({residual_NH.size(0), heads_.row()}, Category::activations);
    linear(run, saved.qkv_NE, normed_NH, *p_.qkv, value_or_none(p_.qkv_bias));
    if (rotary.defined()) rotate(run, saved.qkv_NE, heads_, rotary);
  }
  if (!saved.attention.out_NQ.defined()) saved.attention = attention(run, saved.qkv_NE, length, heads_);
}

at::Tensor AttentionLayer::output(Executor& run, const Dropout& dropout, const Saved& saved) const {
  const at::Tensor out_NH = run.empty(saved.residual_NH.sizes(), Category::activations);
  row_linear(run, group_, out_NH, saved.attention.out_NQ, *p_.out, value_or_none(p_.out_bias));
  add_residual(run, out_NH, saved.residual_NH, dropout);
  return out_NH;
}

KeepCosts AttentionLayer::costs(int64_t rows, int64_t length) const {
  const int64_t hidden = p_.norm.weight->value.numel(), statistics = p_.norm.bias ? 2 : 1;
  const int64_t core = heads_.q_size() + heads_.query_heads, row = hidden + statistics + heads_.row();
  const auto matmul = [&](int64_t in, int64_t out) { return 2.0 * static_cast<double>(rows * in * out); };
  const double core_flops = matmul(length, heads_.q_size());  // two products over half of the positions
  return {{{rows * (row + core), 0},
           {rows * row, core_flops},
           {rows * hidden, core_flops + matmul(hidden, heads_.row()) + matmul(heads_.q_size(), hidden)}}};
}

void AttentionLayer::backward(Executor& run, at::Tensor d_NH, int64_t length, const RotaryTable& rotary,
                              const Dropout& dropout, Saved& saved) const {
  Weight none;
  {
    const BranchGradient branch(run, d_NH, dropout);
    const at::Tensor dout_NQ = run.empty(saved.attention.out_NQ.sizes(), Category::temporary);
    linear_backward_input(run, dout_NQ, branch.tensor(), *p_.out);
    linear_backward_weight(run, *p_.out, p_.out_bias ? *p_.out_bias : none, branch.tensor(),
                           saved.attention.out_NQ);
    attention_backward(run, saved.qkv_NE, saved.attention, dout_NQ, length, heads_, rotary);
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
