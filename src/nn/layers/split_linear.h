// The two matrix products of a half block when its width is split over the tensor group. The first one
// ("column-parallel") has the outputs of this rank: the input is whole, so its gradient is a sum over the
// group. The second ("row-parallel") has the inputs of this rank: its output is a sum over the group.
//
// Where the group shares rows (tensor_group.h), what lies outside of the two products are M rows: they are
// gathered to be the input, and each rank gets its rows of the sum. N rows else, M = N.
#pragma once
#include "nn/executor.h"
#include "nn/gathered_rows.h"
#include "nn/summed_rows.h"
#include "nn/tensor_group.h"
#include "nn/weight.h"

namespace muster::nn {

// y_NO = x W^T (+ bias_O); each rank has its own O.
void column_linear(Executor& run, const TensorGroup& group, at::Tensor y_NO, const at::Tensor& x_MI,
                   const Weight& weight, const Weight& bias);
// The gradients: those of the parameters, and dx_MI summed over the group. Where both travel, x is gathered
// beside the product for dx, and dx summed beside the rest of its own product and that for W. Alone, dx may
// be x's memory.
void column_linear_backward(Executor& run, const TensorGroup& group, at::Tensor dx_MI, Weight& weight,
                            Weight& bias, const at::Tensor& dy_NO, const at::Tensor& x_MI);
// Where dx goes: x's memory, which is done with, unless both are needed at one time.
at::Tensor gradient_beside(const Executor& run, const TensorGroup& group, const at::Tensor& x_MI);

// y_MO = the group's sum of x_NI W^T (+ bias_O, once), summed beside the product.
void row_linear(Executor& run, const TensorGroup& group, at::Tensor y_MO, const at::Tensor& x_NI,
                const Weight& weight, const Weight& bias);
// dx_NI = dy W, and then the parameters' gradients: apart, as x may be made again between the two.
void row_linear_backward_input(Executor& run, at::Tensor dx_NI, GatheredRows& dy, const Weight& weight);
void row_linear_backward_weight(Executor& run, Weight& weight, Weight* bias, GatheredRows& dy,
                                const at::Tensor& x_NI);

}  // namespace muster::nn
