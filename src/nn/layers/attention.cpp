#include "nn/layers/attention.h"

#include "nn/layers/residual.h"
#include "nn/layers/split_linear.h"

namespace muster::nn {

at::Tensor AttentionLayer::forward(Executor& run, const at::Tensor& residual_MH, const Positions& positions,
                                   const RotaryTable& rotary, const Dropout& dropout, Keep keep,
                                   Saved* saved) const {
  Saved all;
  all.residual_MH = residual_MH;
  restore(run, positions, rotary, all);
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

void AttentionLayer::restore(Executor& run, const Positions& positions, const RotaryTable& rotary,
                             Saved& saved) const {
  if (!saved.qkv_NE.defined()) {
    saved.qkv_NE = normed_linear(run, group_, saved.norm, saved.residual_MH, p_.qkv);
    if (rotary.defined()) rotate(run, saved.qkv_NE, heads_, rotary, positions.runs);
  }
  if (!saved.attention.out_NQ.defined())
    saved.attention = context_attention(run, context_, saved.qkv_NE, positions, heads_);
}

at::Tensor AttentionLayer::output(Executor& run, const Dropout& dropout, const Saved& saved) const {
  const at::Tensor out_MH = run.empty(saved.residual_MH.sizes(), Category::activations);
  row_linear(run, group_, out_MH, saved.attention.out_NQ, *p_.out, value_or_none(p_.out_bias));
  add_residual(run, out_MH, saved.residual_MH, dropout);
  return out_MH;
}

KeepCosts AttentionLayer::costs(int64_t rows, int64_t length, int64_t element_bytes,
                                int64_t statistic_bytes) const {
  const int64_t hidden = p_.qkv.norm.weight->value.numel(), statistics = p_.qkv.norm.bias ? 2 : 1;
  const int64_t core = kept_bytes(context_, heads_, element_bytes, statistic_bytes);
  const int64_t row = element_bytes * heads_.row(), here = rows / group_.row_shares();
  const int64_t stream = here * (element_bytes * hidden + statistic_bytes * statistics);
  const auto matmul = [&](int64_t in, int64_t out) { return 2.0 * static_cast<double>(rows * in * out); };
  const double core_flops = matmul(length, heads_.q_size());  // two products over half of the positions
  return {{{stream + rows * (row + core), 0},
           {stream + rows * row, core_flops},
           {element_bytes * here * hidden,
            core_flops + matmul(hidden, heads_.row()) + matmul(heads_.q_size(), hidden)}}};
}

void AttentionLayer::backward(Executor& run, at::Tensor d_MH, const Positions& positions,
                              const RotaryTable& rotary, const Dropout& dropout, Saved& saved) const {
  {
    ContextBackward backward(run, context_, saved.qkv_NE, saved.attention, positions, heads_);
    const at::Tensor dout_NQ = run.empty(saved.attention.out_NQ.sizes(), Category::temporary);
    {
      const BranchGradient branch(run, d_MH, dropout);
      GatheredRows d(run, group_, branch.tensor());
      row_linear_backward_input(run, dout_NQ, d, *p_.out);
      row_linear_backward_weight(run, *p_.out, p_.out_bias, d, saved.attention.out_NQ);
    }
    backward.run(dout_NQ);
    if (rotary.defined()) rotate(run, saved.qkv_NE, heads_, rotary, positions.runs, /*back=*/true);
  }
  saved.attention = {};
  normed_linear_backward(run, group_, d_MH, saved.qkv_NE, saved.norm, saved.residual_MH, p_.qkv);
  saved = {};
}

}  // namespace muster::nn
