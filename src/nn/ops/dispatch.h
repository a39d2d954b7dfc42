// From tensors to the typed pointers of a CPU kernel.
#pragma once
#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>

#include "base/error.h"

namespace muster::nn {

// Calls body(T{}) with T = float, double or bfloat16.
template <class Body>
void with_type(const at::Tensor& tensor, Body&& body) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return body(float{});
    case at::kDouble:
      return body(double{});
    case at::kBFloat16:
      return body(c10::BFloat16{});
    default:
      throw Bug(std::string("no kernel for ") + c10::toString(tensor.scalar_type()));
  }
}

// Calls body(T{}, G{}) for the types of a parameter's values, or of what has their type, and of its gradient.
template <class Body>
void with_types(const at::Tensor& value, const at::Tensor& gradient, Body&& body) {
  if (value.scalar_type() == at::kBFloat16 && gradient.scalar_type() == at::kFloat)
    return body(c10::BFloat16{}, float{});
  MUSTER_CHECK(value.scalar_type() == gradient.scalar_type(), "no kernel for {} with gradients in {}",
               c10::toString(value.scalar_type()), c10::toString(gradient.scalar_type()));
  with_type(value, [&](auto zero) { body(zero, zero); });
}

template <class T>
T* data(const at::Tensor& tensor) {
  MUSTER_CHECK(tensor.is_contiguous(), "kernels take contiguous tensors");
  MUSTER_CHECK(tensor.element_size() == sizeof(T), "{} where a kernel takes {} bytes",
               c10::toString(tensor.scalar_type()), sizeof(T));
  return static_cast<T*>(tensor.data_ptr());
}
template <class T>
T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? data<T>(tensor) : nullptr;
}

}  // namespace muster::nn
