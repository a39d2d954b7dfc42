#include "checkpoint/deliver.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cstring>

#include "base/error.h"
#include "checkpoint/tensor_io.h"

namespace muster::checkpoint {
namespace {

// Runs of one length at even distances, as two strided tensors see them: one copy of a device, and not one a
// row of the matrix.
struct Stripes {
  spec::CopyRun first;
  int64_t repeat = 1, source_stride = 1, destination_stride = 1;

  bool take(const spec::CopyRun& run) {
    const int64_t source = run.source - first.source, destination = run.destination - first.destination;
    if (run.count != first.count) return false;
    if (repeat == 1) {
      source_stride = source;
      destination_stride = destination;
    }
    if (source != repeat * source_stride || destination != repeat * destination_stride) return false;
    ++repeat;
    return true;
  }
  void copy(const at::Tensor& source, const at::Tensor& destination) const {
    destination
        .as_strided({repeat, first.count}, {destination_stride, 1}, offset(destination, first.destination))
        .copy_(source.as_strided({repeat, first.count}, {source_stride, 1}, offset(source, first.source)));
  }
  static int64_t offset(const at::Tensor& flat, int64_t element) { return flat.storage_offset() + element; }
};

void copy_bytes(spec::CopyRuns runs, const char* source, char* destination, int64_t width) {
  while (const auto run = runs.next())
    std::memcpy(destination + run->destination * width, source + run->source * width,
                static_cast<size_t>(run->count * width));
}

void copy_elements(spec::CopyRuns runs, const at::Tensor& source, const at::Tensor& destination) {
  std::optional<Stripes> stripes;
  while (const auto run = runs.next()) {
    if (stripes && stripes->take(*run)) continue;
    if (stripes) stripes->copy(source, destination);
    stripes = Stripes{*run};
  }
  if (stripes) stripes->copy(source, destination);
}

}  // namespace

Destination::Destination(at::Tensor whole) : tensor(std::move(whole)), piece(tensor.sizes().vec()) {}

bool share(const spec::Piece& a, const spec::Piece& b) {
  return spec::CopyRuns(a, b).next().has_value();
}

void deliver(const spec::Piece& from, DType dtype, std::string_view bytes, const Destination& to) {
  const int64_t width = bytes_of(dtype);
  MUSTER_CHECK(static_cast<int64_t>(bytes.size()) == from.elements() * width, "{} bytes for {} elements",
               bytes.size(), from.elements());
  MUSTER_CHECK(to.tensor.is_contiguous() && to.tensor.numel() == to.piece.elements(),
               "a destination of {} elements for a piece of {}", to.tensor.numel(), to.piece.elements());
  const c10::NoGradGuard no_grad;
  const at::Tensor flat = to.tensor.detach().view({-1});
  const at::ScalarType type = to_scalar_type(dtype);
  if (flat.is_cpu() && flat.scalar_type() == type)
    return copy_bytes({from, to.piece}, bytes.data(), static_cast<char*>(flat.data_ptr()), width);
  copy_elements({from, to.piece}, at::from_blob(const_cast<char*>(bytes.data()), {from.elements()}, type),
                flat);
}

}  // namespace muster::checkpoint
