// Matrix products of a layer. N rows, I inputs, O outputs; a weight is [O, I], or [I, O] when stored_in_out.
#pragma once
#include "nn/executor.h"
#include "nn/weight.h"

namespace muster::nn {

// y_NO = x_NI W^T (+ bias_O).
void linear(Executor& run, at::Tensor y_NO, const at::Tensor& x_NI, const Weight& weight, const Weight& bias);
// dx_NI = dy_NO W.
void linear_backward_input(Executor& run, at::Tensor dx_NI, const at::Tensor& dy_NO, const Weight& weight);
// W's and bias's gradients = or += dy^T x, sum of rows of dy.
void linear_backward_weight(Executor& run, Weight& weight, Weight& bias, const at::Tensor& dy_NO,
                            const at::Tensor& x_NI);

}  // namespace muster::nn
