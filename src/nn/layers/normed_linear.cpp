#include "nn/layers/normed_linear.h"

#include "nn/layers/residual.h"
#include "nn/layers/split_linear.h"

namespace muster::nn {

at::Tensor normed_linear(Executor& run, const TensorGroup& group, NormSaved& saved, const at::Tensor& x_MH,
                         const NormedLinear& layer) {
  const at::Tensor normed_MH = run.empty(x_MH.sizes(), Category::temporary);
  norm(run, normed_MH, saved, x_MH, layer.norm);
  const at::Tensor y_NO =
      run.empty({x_MH.size(0) * group.row_shares(), layer.weight->outputs()}, Category::activations);
  column_linear(run, group, y_NO, normed_MH, *layer.weight, value_or_none(layer.bias));
  return y_NO;
}

void normed_linear_backward(Executor& run, const TensorGroup& group, at::Tensor d_MH, const at::Tensor& dy_NO,
                            const NormSaved& saved, const at::Tensor& x_MH, const NormedLinear& layer) {
  Weight none;
  const at::Tensor normed_MH = run.empty(x_MH.sizes(), Category::temporary);
  norm_again(run, normed_MH, saved, x_MH, layer.norm);
  const at::Tensor dnormed_MH = gradient_beside(run, group, normed_MH);
  column_linear_backward(run, group, dnormed_MH, *layer.weight, layer.bias ? *layer.bias : none, dy_NO,
                         normed_MH);
  norm_backward(run, d_MH, dnormed_MH, saved, x_MH, layer.norm);
}

}  // namespace muster::nn
