#include "nn/layers/attention.h"

#include "nn/layers/residual.h"
#include "nn/layers/split_linear.h"

namespace muster::nn {

at::Tensor AttentionLayer::forward(Executor& run, const at::Tensor& residual_MH, int64_t length,
                                   const RotaryTable& rotary, const Dropout& dropout, Saved* saved) const {
  Saved kept;
  kept.residual_MH = residual_MH;
  kept.qkv_NE = normed_linear(run, group_, kept.norm, residual_MH, p_.qkv);
  if (rotary.defined()) rotate(run, kept.qkv_NE, heads_, rotary);
  kept.attention = attention(run, kept.qkv_NE, length, heads_);
  const at::Tensor out_MH = run.empty(residual_MH.sizes(), Category::activations);
  row_linear(run, group_, out_MH, kept.attention.out_NQ, *p_.out, value_or_none(p_.out_bias));
  add_residual(run, out_MH, residual_MH, dropout);
  if (saved) *saved = std::move(kept);
  return out_MH;
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
