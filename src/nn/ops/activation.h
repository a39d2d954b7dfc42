// The nonlinearity of an FFN. The backward calls work in place: what was saved becomes its own gradient, and
// the gradient of the product becomes the product again, which the next weight's gradient needs.
#pragma once
#include "nn/executor.h"

namespace muster::nn {

// h_NF = silu(gate) * up, from rows of [gate, up].
void swiglu(Executor& run, at::Tensor h_NF, const at::Tensor& gate_up_NG);
void swiglu_backward(Executor& run, at::Tensor gate_up_NG, at::Tensor dh_NF);
// h_NF = gelu(a_NF), by tanh.
void gelu(Executor& run, at::Tensor h_NF, const at::Tensor& a_NF);
void gelu_backward(Executor& run, at::Tensor a_NF, at::Tensor dh_NF);

}  // namespace muster::nn
