// The two matrix products of a half block when its width is split over the tensor group. The first one
// ("column-parallel") has the outputs of this rank: the input is whole, so its gradient is a sum over the
// group. The second ("row-parallel") has the inputs of this rank: its output is a sum over the group.
#pragma once
#include "nn/executor.h"
#include "nn/tensor_group.h"
#include "nn/weight.h"

namespace muster::nn {

// y_NO = the group's sum of x_NI W^T (+ bias_O, once).
void row_linear(Executor& run, const TensorGroup& group, at::Tensor y_NO, const at::Tensor& x_NI,
                const Weight& weight, const Weight& bias);

// The gradients of y_NO = x_NI W^T + bias, where each rank has its own O: those of the parameters, and dx_NI
// summed over the group, whose message travels beside the product for W. Alone, dx may be x's memory.
void column_linear_backward(Executor& run, const TensorGroup& group, at::Tensor dx_NI, Weight& weight,
                            Weight& bias, const at::Tensor& dy_NO, const at::Tensor& x_NI);

// Where dx goes: x's memory, which is done with, unless both are needed at one time.
at::Tensor gradient_beside(const Executor& run, const TensorGroup& group, const at::Tensor& x_NI);

}  // namespace muster::nn
