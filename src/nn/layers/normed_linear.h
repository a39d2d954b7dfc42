// How each half of a block begins: the norm of the residual stream and the column-parallel product that reads
// it. The normed rows are not kept: backward makes them again from the stream, and gathers them again where
// the group shares rows.
#pragma once
#include "nn/ops/norm.h"
#include "nn/tensor_group.h"

namespace muster::nn {

struct NormedLinear {
  Norm norm;
  Weight* weight = nullptr;
  Weight* bias = nullptr;  // may be null
};

// y_NO = norm(x_MH) W^T + bias, booked as activations, as is `saved`.
at::Tensor normed_linear(Executor& run, const TensorGroup& group, NormSaved& saved, const at::Tensor& x_MH,
                         const NormedLinear& layer);
// d_MH += the gradient of x; the parameters' gradients are written.
void normed_linear_backward(Executor& run, const TensorGroup& group, at::Tensor d_MH, const at::Tensor& dy_NO,
                            const NormSaved& saved, const at::Tensor& x_MH, const NormedLinear& layer);

}  // namespace muster::nn
