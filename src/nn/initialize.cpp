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

// Neighbours in `host` that are neighbours in the whole are drawn in one go.
template <class T>
void fill_part(const at::Tensor& host, const spec::ParameterRow& row, const spec::LocalPart& part,
               PhiloxKey key) {
  const auto dim = static_cast<size_t>(part.dim);
  const int64_t outer = product(row.shape, 0, dim), inner = product(row.shape, dim + 1, row.shape.size());
  for (int64_t at = 0; at < outer; ++at)
    for (const spec::IndexRun& run : part.runs) {
      T* to = data<T>(host) + (at * host.size(part.dim) + run.local) * inner;
      kernels::fill_normal(to, run.size * inner, (at * row.shape[dim] + run.global) * inner, key,
                           row.initializer.scale);
    }
}

}  // namespace

void initialize(Executor& run, at::Tensor value, const spec::ParameterRow& row, const spec::LocalPart& part,
                uint64_t seed) {
  run.run("initialize", {0, static_cast<int64_t>(value.nbytes())}, [&] {
    if (row.initializer.kind == spec::Initializer::Kind::constant) {
      value.fill_(row.initializer.scale);
      return;
    }
    at::Tensor host = value.is_cpu() ? value : at::empty(value.sizes(), value.options().device(at::kCPU));
    with_type(host,
              [&](auto zero) { fill_part<decltype(zero)>(host, row, part, random_key(seed, row.name)); });
    if (!value.is_cpu()) value.copy_(host);
  });
}

}  // namespace muster::nn
