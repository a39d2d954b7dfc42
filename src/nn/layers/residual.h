// What the two halves of a block share: the way back into the residual stream.
#pragma once
#include "nn/ops/elementwise.h"

namespace muster::nn {

inline const Weight& value_or_none(const Weight* weight) {
  static const Weight none;
  return weight ? *weight : none;
}

// branch_NH = residual + dropout(branch).
inline void add_residual(Executor& run, at::Tensor branch_NH, const at::Tensor& residual_NH,
                         const Dropout& dropout) {
  if (dropout.probability > 0) drop(run, branch_NH, branch_NH, dropout);
  add_to(run, branch_NH, residual_NH);
}

// The gradient of a branch from that of the stream: the same tensor, or a copy with the same elements
// dropped.
class BranchGradient {
 public:
  BranchGradient(Executor& run, const at::Tensor& d_NH, const Dropout& dropout) : branch_NH_(d_NH) {
    if (dropout.probability == 0) return;
    branch_NH_ = run.empty(d_NH.sizes(), Category::temporary);
    drop(run, branch_NH_, d_NH, dropout);
  }
  const at::Tensor& tensor() const { return branch_NH_; }

 private:
  at::Tensor branch_NH_;
};

}  // namespace muster::nn
