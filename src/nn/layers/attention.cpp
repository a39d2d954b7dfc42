#include "nn/layers/attention.h"

#include "nn/layers/residual.h"
#include "nn/layers/split_linear.h"

namespace muster::nn {

at::Tensor AttentionLayer::forward(Executor& run, const at::Tensor& residual_MH, int64_t length,
                                   const RotaryTable& rotary, const Dropout& dropout, Keep keep,
                                   Saved* saved) const {
  Saved all;
  all.residual_MH = residual_MH;
  restore(run, length, rotary, all);
  const at::Tensor out_MH = output(run, dropout, all);
  if (!saved) return out_MH;
  if (keep == Keep::input) {
    all = {};
    all.residual_MH = residual_MH;
  }
  if (keep == Keep::all_but_core) all.attention = {};
  *saved = std::move(all);
  return out_MH;
}

void AttentionLayer::restore(Executor& run, int64_t length, const RotaryTable& rotary, Saved& saved) const {
  if (!saved.qkv_NE.defined()) {
    saved.qkv_NE = normed_linear(run, group_, saved.norm, saved.residual_MH, p_.qkv);
    if (rotary.defined()) rotate(run, saved.qkv_NE, heads_, rotary);
  }
  if (!saved.attention.out_NQ.defined()) saved.attention = attention(run, saved.qkv_NE, length, heads_);
}

at::Tensor AttentionLayer::output(Executor& run, const Dropout& dropout, const Saved& saved) const {
  const at::Tensor out_MH = run.empty(saved.residual_MH.sizes(), Category::activations);
  row_linear(run, group_, out_MH, saved.attention.out_NQ, *p_.out, value_or_none(p_.out_bias));
  add_residual(run, out_MH, saved.residual_MH, dropout);
  return out_MH;
}

KeepCosts AttentionLayer::costs(int64_t rows, int64_t length, int64_t element_bytes) const {
  const int64_t hidden = p_.qkv.norm.weight->value.numel(), statistics = p_.qkv.norm.bias ? 2 : 1;
  const int64_t core = heads_.q_size() + heads_.query_heads, row = heads_.row(),
                here = rows / group_.row_shares();
  const int64_t stream = here * (hidden + statistics);
  const auto matmul = [&](int64_t in, int64_t out) { return 2.0 * static_cast<double>(rows * in * out); };
  const double core_flops = matmul(length, heads_.q_size());  // two products over half of the positions
  return {{{element_bytes * (stream + rows * (row + core)), 0},
           {element_bytes * (stream + rows * row), core_flops},
           {element_bytes * here * hidden,
            core_flops + matmul(hidden, heads_.row()) + matmul(heads_.q_size(), hidden)}}};
}

void AttentionLayer::backward(Executor& run, at::Tensor d_MH, int64_t length, const RotaryTable& rotary,
                              const Dropout& dropout, Saved& saved) const {
  {
    const at::Tensor dout_NQ = run.empty(saved.attention.out_NQ.sizes(), Category::temporary);
    {
      const BranchGradient branch(run, d_MH, dropout);
      GatheredRows d(run, group_, branch.tensor());
      row_linear_backward_input(run, dout_NQ, d, *p_.out);
      row_linear_backward_weight(run, *p_.out, p_.out_bias, d, saved.attention.out_NQ);
    }
    attention_backward(run, saved.qkv_NE, saved.attention, dout_NQ, length, heads_, rotary);
  }
  saved.attention = {};
  normed_linear_backward(run, group_, d_MH, saved.qkv_NE, saved.norm, saved.residual_MH, p_.qkv);
  saved = {};
}

}  // namespace muster::nn
