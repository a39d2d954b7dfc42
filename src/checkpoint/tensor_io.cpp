#include "checkpoint/tensor_io.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>

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

// Elements of a file's tensor, as it is seen from one of its dims: outer x dim x inner.
struct Runs {
  int64_t outer = 1, size = 1, inner = 1;
  Runs(const std::vector<int64_t>& shape, int64_t dim) {
    for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
      (i < dim ? outer : i == dim ? size : inner) *= shape[i];
  }
};

void check_fits(const TensorEntry& entry, const Destination& to) {
  std::vector<int64_t> shape = to.tensor.sizes().vec();
  MUSTER_CHECK(shape.size() == entry.shape.size(), "{} has {} dims, its destination {}", entry.name,
               entry.shape.size(), shape.size());
  if (shape.empty()) return;
  MUSTER_CHECK(to.start >= 0 && to.start + shape[to.dim] <= entry.shape[to.dim],
               "{}: [{}, {}) of dim {} with {} indices", entry.name, to.start, to.start + shape[to.dim],
               to.dim, entry.shape[to.dim]);
  shape[to.dim] = entry.shape[to.dim];
  MUSTER_CHECK(shape == entry.shape, "{}: its destination differs in a dim other than {}", entry.name,
               to.dim);
}

// Reads a flat tensor's elements from element `first` of the file's tensor on, through `staging`.
void read_converted(const SafetensorsFile& file, const TensorEntry& entry, int64_t first,
                    const at::Tensor& flat, const at::Tensor& staging) {
  const int64_t width = bytes_of(entry.dtype);
  for (int64_t at = 0; at < flat.numel();) {
    const int64_t count = std::min(flat.numel() - at, staging.numel());
    file.read(entry, (first + at) * width, count * width, staging.data_ptr());
    flat.narrow(0, at, count).copy_(staging.narrow(0, 0, count));
    at += count;
  }
}

// Fills a contiguous tensor with indices [start, start + its size) of dim `dim`.
void read_packed(const SafetensorsFile& file, const TensorEntry& entry, const at::Tensor& packed, int64_t dim,
                 int64_t start) {
  const Runs whole(entry.shape, dim);
  const int64_t width = bytes_of(entry.dtype), run = packed.numel() / whole.outer;
  const at::Tensor runs = packed.view({whole.outer, run});
  const at::ScalarType type = to_scalar_type(entry.dtype);
  const bool direct = packed.is_cpu() && packed.scalar_type() == type;
  const at::Tensor staging = direct ? at::Tensor() : at::empty({std::min(kStagingBytes / width, run)}, type);
  for (int64_t outer = 0; outer < whole.outer; ++outer) {
    const int64_t first = (outer * whole.size + start) * whole.inner;
    direct ? file.read(entry, first * width, run * width, runs[outer].data_ptr())
           : read_converted(file, entry, first, runs[outer], staging);
  }
}

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
  check_fits(entry, to);
  if (to.tensor.numel() == 0) return;
  const c10::NoGradGuard no_grad;
  if (to.tensor.is_contiguous()) return read_packed(file, entry, to.tensor, to.dim, to.start);
  const at::Tensor packed = at::empty(to.tensor.sizes(), to.tensor.options());
  read_packed(file, entry, packed, to.dim, to.start);
  to.tensor.copy_(packed);
}

bool same_bytes(const SafetensorsFile& file_a, const TensorEntry& a, const SafetensorsFile& file_b,
                const TensorEntry& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  std::vector<char> piece_a(std::min(kStagingBytes, a.bytes())), piece_b(piece_a.size());
  for (int64_t at = 0; at < a.bytes();) {
    const int64_t bytes = std::min<int64_t>(a.bytes() - at, piece_a.size());
    file_a.read(a, at, bytes, piece_a.data());
    file_b.read(b, at, bytes, piece_b.data());
    if (std::memcmp(piece_a.data(), piece_b.data(), bytes) != 0) return false;
    at += bytes;
  }
  return true;
}

void write_tensor(SafetensorsWriter& writer, const at::Tensor& tensor, at::ScalarType type) {
  const at::Tensor packed = tensor.detach().to(at::kCPU, type).contiguous();
  writer.write(packed.data_ptr(), static_cast<int64_t>(packed.nbytes()));
}

}  // namespace muster::checkpoint
