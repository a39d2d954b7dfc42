// Matrix products whose matrices may be bfloat16: summed in fp32 and rounded once, into an output of that
// format or of fp32.
//
// The library's own product is used where all three have one format and the machine has instructions for it.
// A CPU without them takes bfloat16 elementwise, slower than fp32 by an order of magnitude: there, and for an
// fp32 output, which the library has no CPU product for, the operands are copied to fp32 first, as scratch.
// No GPU has run this: theirs could take bfloat16 operands into an fp32 output as they are.
#pragma once
#include <ATen/core/Tensor.h>

namespace muster::nn {

// out = a b.
void product_into(at::Tensor out, const at::Tensor& a, const at::Tensor& b);
// out += a b.
void add_product(at::Tensor out, const at::Tensor& a, const at::Tensor& b);

}  // namespace muster::nn
