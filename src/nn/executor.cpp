#include "nn/executor.h"

#include <ATen/ops/empty.h>

namespace muster::nn {

at::Tensor Executor::empty(at::IntArrayRef shape, Category category, at::ScalarType dtype) const {
  const device::CategoryGuard guard(category);
  return at::empty(shape, at::TensorOptions().device(device_).dtype(dtype));
}

void Executor::note(const char* op, Cost cost, double start) {
  const double seconds = is_meta() ? 0 : clock_->seconds() - start;
  record_->ops.push_back(
      {op, where_, phase_, cost.flops, cost.bytes, is_meta() ? 0 : start, seconds, record_->memory.size()});
}

}  // namespace muster::nn
