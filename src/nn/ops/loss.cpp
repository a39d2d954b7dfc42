#include "nn/ops/loss.h"

#include <algorithm>

#include "base/units.h"
#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"
#include "nn/ops/linear.h"

namespace muster::nn {
namespace {

constexpr int64_t kChunkBytes = 32 * MiB;

void cross_entropy(Executor& run, at::Tensor logits_NV, at::Tensor losses_N, const at::Tensor& targets_N,
                   bool gradient) {
  run.run("cross_entropy", {0, 4 * static_cast<int64_t>(logits_NV.nbytes())}, [&] {
    if (!logits_NV.is_cpu()) return composite::cross_entropy(logits_NV, losses_N, targets_N, gradient);
    with_type(logits_NV, [&](auto zero) {
      using T = decltype(zero);
      kernels::cross_entropy(data<T>(logits_NV), data<double>(losses_N), data<int32_t>(targets_N),
                             logits_NV.size(0), logits_NV.size(1), gradient);
    });
  });
}

}  // namespace

int64_t loss_chunk_rows(int64_t rows, int64_t vocabulary, int64_t element_bytes, int64_t asked) {
  const int64_t most =
      asked > 0 ? std::min(asked, rows) : std::max<int64_t>(16, kChunkBytes / (vocabulary * element_bytes));
  const int64_t chunks = (rows + most - 1) / most;
  return (rows + chunks - 1) / chunks;
}

void linear_cross_entropy(Executor& run, at::Tensor loss_sum, at::Tensor dx_NH, const at::Tensor& x_NH,
                          Weight& weight_VH, const at::Tensor& targets_N, int64_t chunk_rows) {
  const int64_t rows = x_NH.size(0), vocabulary = weight_VH.value.size(0);
  Weight no_bias;
  const at::Tensor logits = run.empty({chunk_rows, vocabulary}, Category::temporary);
  const at::Tensor losses_N = run.empty({rows}, Category::temporary, at::kDouble);
  for (int64_t begin = 0; begin < rows; begin += chunk_rows) {
    const int64_t count = std::min(chunk_rows, rows - begin);
    const at::Tensor x = x_NH.narrow(0, begin, count), logits_NV = logits.narrow(0, 0, count);
    linear(run, logits_NV, x, weight_VH, no_bias);
    cross_entropy(run, logits_NV, losses_N.narrow(0, begin, count), targets_N.narrow(0, begin, count),
                  dx_NH.defined());
    if (!dx_NH.defined()) continue;
    linear_backward_input(run, dx_NH.narrow(0, begin, count), logits_NV, weight_VH);
    linear_backward_weight(run, weight_VH, no_bias, logits_NV, x);
  }
  run.run("sum", {0, static_cast<int64_t>(losses_N.nbytes())}, [&] { loss_sum.add_(losses_N.sum()); });
}

}  // namespace muster::nn
