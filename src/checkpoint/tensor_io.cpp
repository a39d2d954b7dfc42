#include "checkpoint/tensor_io.h"

#include <algorithm>
#include <memory>

#include "base/error.h"

namespace muster::checkpoint {
namespace {

struct Twin {
  DType dtype;
  at::ScalarType type;
};
constexpr Twin kTwins[] = {
    {DType::f64, at::kDouble},
    {DType::f32, at::kFloat},
    {DType::f16, at::kHalf},
    {DType::bf16, at::kBFloat16},
    {DType::f8_e4m3, at::kFloat8_e4m3fn},
    {DType::f8_e5m2, at::kFloat8_e5m2},
    {DType::i64, at::kLong},
    {DType::i32, at::kInt},
    {DType::i16, at::kShort},
    {DType::i8, at::kChar},
    {DType::u8, at::kByte},
    {DType::boolean, at::kBool},
};

// A call for a shorter run costs more than reading what lies between two of them.
constexpr int64_t kLongRunBytes = int64_t{64} << 10;

}  // namespace

at::ScalarType to_scalar_type(DType dtype) {
  for (const Twin& twin : kTwins)
    if (twin.dtype == dtype) return twin.type;
  throw Bug("a dtype without a scalar type");
}

DType to_dtype(at::ScalarType type) {
  for (const Twin& twin : kTwins)
    if (twin.type == type) return twin.dtype;
  throw Bug(fmt::format("safetensors has no {}", at::toString(type)));
}

void read_tensor(const SafetensorsFile& file, const TensorEntry& entry, const Destination& to) {
  const int64_t width = bytes_of(entry.dtype), held = to.piece.elements();
  const at::ScalarType type = to_scalar_type(entry.dtype);
  MUSTER_CHECK(entry.shape == to.piece.shape(), "{}: a destination of another shape", entry.name);
  const bool as_they_are = to.tensor.is_cpu() && to.tensor.scalar_type() == type && to.tensor.is_contiguous();
  const spec::Piece whole(entry.shape);
  const int64_t end = held == 0 ? 0 : to.piece.run_from(held - 1).global + 1;
  // Not a tensor: what its allocator gives back cannot be had again at once, and would add up.
  std::unique_ptr<char[]> staging;
  for (int64_t local = 0; local < held;) {
    const spec::FlatRun run = to.piece.run_from(local);
    if (as_they_are && run.count * width >= kLongRunBytes) {
      file.read(entry, run.global * width, run.count * width,
                static_cast<char*>(to.tensor.data_ptr()) + local * width);
      local += run.count;
      continue;
    }
    const int64_t last = std::min(end, run.global + kStagingBytes / width);
    const int64_t bytes = (last - run.global) * width;
    if (!staging) staging = std::make_unique_for_overwrite<char[]>(kStagingBytes);
    file.read(entry, run.global * width, bytes, staging.get());
    deliver(whole.narrow(run.global, last), entry.dtype, {staging.get(), static_cast<size_t>(bytes)}, to);
    local = to.piece.find(last);
  }
}

void write_tensor(SafetensorsWriter& writer, const at::Tensor& tensor, at::ScalarType type) {
  const at::Tensor packed = tensor.detach().to(at::kCPU, type).contiguous();
  writer.write(packed.data_ptr(), static_cast<int64_t>(packed.nbytes()));
}

}  // namespace muster::checkpoint
