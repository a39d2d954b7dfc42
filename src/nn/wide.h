// bfloat16 is a format of memory: the library's operators take it in fp32, and what they make is rounded once
// into its place. (The CPU kernels do so element by element: kernels/wide.h.)
#pragma once
#include <ATen/core/Tensor.h>

namespace muster::nn {

// The type that a type of memory is computed in.
constexpr at::ScalarType wide_type(at::ScalarType type) {
  return type == at::kBFloat16 ? at::kFloat : type;
}
inline bool is_narrow(const at::Tensor& x) {
  return x.scalar_type() != wide_type(x.scalar_type());
}
// x itself, or a copy in fp32 with the same strides.
inline at::Tensor wide(const at::Tensor& x) {
  return x.to(wide_type(x.scalar_type()));
}
// Calls change(x) with `to` itself, or with a copy in fp32 that is rounded into it afterwards.
template <class Change>
void in_wide(const at::Tensor& to, Change&& change) {
  const at::Tensor x = wide(to);
  change(x);
  if (!x.is_same(to)) to.copy_(x);
}

}  // namespace muster::nn
