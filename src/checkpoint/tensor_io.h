// Tensors in and out of safetensors files, a bounded piece at a time.
#pragma once
#include <ATen/ATen.h>

#include "checkpoint/deliver.h"
#include "checkpoint/safetensors.h"

namespace muster::checkpoint {

at::ScalarType to_scalar_type(DType dtype);
// Throws Bug for a type that safetensors has not.
DType to_dtype(at::ScalarType type);

// Reads of a tensor of a file the elements that the destination holds. Memory beside it: kStagingBytes at
// most, and none where long runs move as they are.
constexpr int64_t kStagingBytes = int64_t{8} << 20;
void read_tensor(const SafetensorsFile& file, const TensorEntry& entry, const Destination& to);

// Appends a tensor's elements, converted to `type`.
void write_tensor(SafetensorsWriter& writer, const at::Tensor& tensor, at::ScalarType type);

}  // namespace muster::checkpoint
