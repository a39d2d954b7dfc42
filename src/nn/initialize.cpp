#include "nn/initialize.h"

#include "nn/kernels/kernels.h"
#include "nn/ops/dispatch.h"

namespace muster::nn {
namespace {

// Sizes of a tensor as it is seen from one of its dims: outer x dim x inner elements.
template <class Shape>
int64_t product(const Shape& shape, size_t first, size_t last) {
  int64_t elements = 1;
  for (size_t dim = first; dim < last; ++dim) elements *= shape[dim];
  return elements;
}

// Neighbours in the part that are neighbours in the whole are drawn in one go.
template <class T>
void fill_range(T* piece, const spec::ParameterRow& row, const spec::LocalPart& part, FlatRange range,
                PhiloxKey key) {
  const auto dim = static_cast<size_t>(part.dim);
  const int64_t outer = product(row.shape, 0, dim), inner = product(row.shape, dim + 1, row.shape.size());
  for (int64_t at = 0; at < outer; ++at)
    for (const spec::IndexRun& run : part.runs) {
      const int64_t local = (at * part.size + run.local) * inner;
      const int64_t first = std::max(local, range.first);
      const int64_t last = std::min(local + run.size * inner, range.first + range.size);
      if (first >= last) continue;
      const int64_t global = (at * row.shape[dim] + run.global) * inner + first - local;
      kernels::fill_normal(piece + first - range.first, last - first, global, key, row.initializer.scale);
    }
}

}  // namespace

void initialize(Executor& run, at::Tensor piece, const spec::ParameterRow& row, const spec::LocalPart& part,
                FlatRange range, uint64_t seed) {
  if (range.size == 0) return;
  run.run("initialize", {0, static_cast<int64_t>(piece.nbytes())}, [&] {
    if (row.initializer.kind == spec::Initializer::Kind::constant) {
      piece.fill_(row.initializer.scale);
      return;
    }
    at::Tensor host = piece.is_cpu() ? piece : at::empty(piece.sizes(), piece.options().device(at::kCPU));
    with_type(host, [&](auto zero) {
      using T = decltype(zero);
      fill_range(data<T>(host), row, part, range, random_key(seed, row.name));
    });
    if (!piece.is_cpu()) piece.copy_(host);
  });
}

}  // namespace muster::nn
