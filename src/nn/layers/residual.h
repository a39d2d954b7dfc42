// What the two halves of a block share: the way back into the residual stream.
#pragma once
#include "nn/ops/elementwise.h"

namespace muster::nn {

inline const Weight& value_or_none(const Weight* weight) {
  static const Weight none;
  return weight ? *weight : none;
}

// branch_MH = residual + dropout(branch).
inline void add_residual(Executor& run, at::Tensor branch_MH, const at::Tensor& residual_MH,
                         const Dropout& dropout) {
  if (dropout.probability > 0) drop(run, branch_MH, branch_MH, dropout);
  add_to(run, branch_MH, residual_MH);
}

// The gradient of a branch from that of the stream: the same tensor, or a copy with the same elements
// dropped.
class BranchGradient {
 public:
  BranchGradient(Executor& run, const at::Tensor& d_MH, const Dropout& dropout) : branch_MH_(d_MH) {
    if (dropout.probability == 0) return;
    branch_MH_ = run.empty(d_MH.sizes(), Category::temporary);
    drop(run, branch_MH_, d_MH, dropout);
  }
  const at::Tensor& tensor() const { return branch_MH_; }

 private:
  at::Tensor branch_MH_;
};

}  // namespace muster::nn
