// From a tensor to the typed pointers of a CPU kernel.
#pragma once
#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>

#include "base/error.h"

namespace muster::nn {

// Calls body(T{}) with T = float or double.
template <class Body>
void with_type(const at::Tensor& tensor, Body&& body) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return body(float{});
    case at::kDouble:
      return body(double{});
    default:
      throw Bug(std::string("no kernel for ") + c10::toString(tensor.scalar_type()));
  }
}

template <class T>
T* data(const at::Tensor& tensor) {
  MUSTER_CHECK(tensor.is_contiguous(), "kernels take contiguous tensors");
  return static_cast<T*>(tensor.data_ptr());
}
template <class T>
T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? data<T>(tensor) : nullptr;
}

}  // namespace muster::nn
