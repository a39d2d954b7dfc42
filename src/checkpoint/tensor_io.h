// Tensors in and out of safetensors files, a bounded piece at a time.
#pragma once
#include <ATen/ATen.h>

#include "checkpoint/safetensors.h"

namespace muster::checkpoint {

at::ScalarType to_scalar_type(DType dtype);
// Throws Bug for a type that safetensors has not.
DType to_dtype(at::ScalarType type);

// Where a tensor of a file, or a slice of it, goes: indices [start, start + tensor.size(dim)) of the file's
// dim `dim`; every other dim is whole. The default is the whole tensor. Elements are converted to the dtype
// of `tensor`, which may be strided and on any device.
struct Destination {
  Destination(at::Tensor whole) : tensor(std::move(whole)) {}
  Destination(at::Tensor slice, int64_t dim, int64_t start)
      : tensor(std::move(slice)), dim(dim), start(start) {}
  at::Tensor tensor;
  int64_t dim = 0;
  int64_t start = 0;
};

// Memory beside the destination: none where only bytes move; kStagingBytes at most where elements are
// converted or the device is another; a copy of the destination where that is strided.
constexpr int64_t kStagingBytes = int64_t{8} << 20;
void read_tensor(const SafetensorsFile& file, const TensorEntry& entry, const Destination& destination);

// Whether two tensors of files have the same dtype, shape and bytes.
bool same_bytes(const SafetensorsFile& file_a, const TensorEntry& a, const SafetensorsFile& file_b,
                const TensorEntry& b);

// Appends a tensor's elements, converted to `type`.
void write_tensor(SafetensorsWriter& writer, const at::Tensor& tensor, at::ScalarType type);

}  // namespace muster::checkpoint
