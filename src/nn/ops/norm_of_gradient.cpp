#include "nn/ops/norm_of_gradient.h"

#include <ATen/ops/linalg_vector_norm.h>

#include "nn/kernels/kernels.h"
#include "nn/ops/dispatch.h"

namespace muster::nn {
namespace {

double squares_of(const at::Tensor& x) {
  if (!x.is_cpu())
    return at::linalg_vector_norm(x, 2, std::nullopt, false, at::kDouble).square().item<double>();
  double sum = 0;
  with_type(x, [&](auto zero) { sum = kernels::sum_of_squares(data<decltype(zero)>(x), x.numel()); });
  return sum;
}

double over_group(Executor& run, const TensorGroup& group, double part) {
  if (!group.is_split()) return part;
  const at::Tensor sum = run.empty({1}, Category::temporary, at::kDouble);
  run.run("fill", {}, [&] { sum.fill_(part); });
  group.all_reduce(sum).wait();
  run.run("read", {}, [&] { part = sum.item<double>(); });
  return part;
}

}  // namespace

double sum_of_squares(Executor& run, const TensorGroup& group, const ParameterStore& parameters) {
  double alike = run.is_meta() ? 1 : 0, in_parts = 0;
  for (const Segment& segment : parameters.segments()) {
    // Of those that hold the same slice, the first counts it.
    if (segment.is_split && group.rank() % segment.copies != 0) continue;
    run.run("sum_of_squares", {0, static_cast<int64_t>(segment.gradient.nbytes())},
            [&] { (segment.is_split ? in_parts : alike) += squares_of(segment.gradient); });
  }
  return alike + over_group(run, group, in_parts);
}

}  // namespace muster::nn
