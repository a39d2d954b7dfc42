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

}  // namespace

double sum_of_squares(Executor& run, const ParameterStore& parameters) {
  double sum = run.is_meta() ? 1 : 0;
  for (const Bucket& bucket : parameters.buckets())
    run.run("sum_of_squares", {0, static_cast<int64_t>(bucket.gradient.nbytes())},
            [&] { sum += squares_of(bucket.gradient); });
  return sum;
}

}  // namespace muster::nn
