#include "nn/ops/loss.h"

#include <algorithm>
#include <optional>

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

// The cross-entropy of the rows of a chunk where each rank has a part of the vocabulary.
class SplitCrossEntropy {
 public:
  SplitCrossEntropy(Executor& run, const TensorGroup& group, int64_t chunk_rows)
      : run_(run),
        group_(group),
        most_(run.empty({chunk_rows}, Category::temporary)),
        sums_(run.empty({2 * chunk_rows}, Category::temporary, at::kDouble)) {}

  void operator()(const at::Tensor& logits_NV, const at::Tensor& losses_N, const at::Tensor& targets_N,
                  bool gradient) {
    const int64_t rows = logits_NV.size(0), size = logits_NV.size(1), first_id = group_.rank() * size;
    const Cost cost{0, 2 * static_cast<int64_t>(logits_NV.nbytes())};
    const at::Tensor most_N = most_.narrow(0, 0, rows),
                     sums_2N = sums_.narrow(0, 0, 2 * rows).view({2, rows});
    run_.run("largest_logit", cost, [&] { largest_logit(most_N, logits_NV); });
    group_.all_reduce(most_N, comm::Reduce::maximum).wait();
    run_.run("exp_sums", cost, [&] { exp_sums(logits_NV, sums_2N, most_N, targets_N, first_id, gradient); });
    group_.all_reduce(sums_2N).wait();
    run_.run("cross_entropy", cost, [&] {
      split_cross_entropy(logits_NV, losses_N, sums_2N, most_N, targets_N, first_id, gradient);
    });
  }

 private:
  static void largest_logit(const at::Tensor& most_N, const at::Tensor& logits_NV) {
    if (!logits_NV.is_cpu()) return composite::largest_logit(most_N, logits_NV);
    with_type(logits_NV, [&](auto zero) {
      using T = decltype(zero);
      kernels::largest_logit(data<T>(most_N), data<T>(logits_NV), logits_NV.size(0), logits_NV.size(1));
    });
  }

  static void exp_sums(const at::Tensor& logits_NV, const at::Tensor& sums_2N, const at::Tensor& most_N,
                       const at::Tensor& targets_N, int64_t first_id, bool gradient) {
    if (!logits_NV.is_cpu())
      return composite::exp_sums(logits_NV, sums_2N, most_N, targets_N, first_id, gradient);
    with_type(logits_NV, [&](auto zero) {
      using T = decltype(zero);
      kernels::exp_sums(data<T>(logits_NV), data<double>(sums_2N[0]), data<double>(sums_2N[1]),
                        data<T>(most_N), data<int32_t>(targets_N), logits_NV.size(0), logits_NV.size(1),
                        first_id, gradient);
    });
  }

  static void split_cross_entropy(const at::Tensor& exps_NV, const at::Tensor& losses_N,
                                  const at::Tensor& sums_2N, const at::Tensor& most_N,
                                  const at::Tensor& targets_N, int64_t first_id, bool gradient) {
    if (!exps_NV.is_cpu())
      return composite::split_cross_entropy(exps_NV, losses_N, sums_2N, most_N, targets_N, first_id,
                                            gradient);
    with_type(exps_NV, [&](auto zero) {
      using T = decltype(zero);
      kernels::split_cross_entropy(data<T>(exps_NV), data<double>(losses_N), data<double>(sums_2N[0]),
                                   data<double>(sums_2N[1]), data<T>(most_N), data<int32_t>(targets_N),
                                   exps_NV.size(0), exps_NV.size(1), first_id, gradient);
    });
  }

  Executor& run_;
  const TensorGroup& group_;
  at::Tensor most_, sums_;
};

}  // namespace

int64_t loss_chunk_rows(int64_t rows, int64_t vocabulary, int64_t element_bytes, int64_t asked) {
  const int64_t most =
      asked > 0 ? std::min(asked, rows) : std::max<int64_t>(16, kChunkBytes / (vocabulary * element_bytes));
  const int64_t chunks = (rows + most - 1) / most;
  return (rows + chunks - 1) / chunks;
}

void linear_cross_entropy(Executor& run, const TensorGroup& group, at::Tensor loss_sum, at::Tensor dx_NH,
                          const at::Tensor& x_NH, Weight& weight_VH, const at::Tensor& targets_N,
                          int64_t chunk_rows) {
  const int64_t rows = x_NH.size(0), vocabulary = weight_VH.value.size(0);
  Weight no_bias;
  const at::Tensor logits = run.empty({chunk_rows, vocabulary}, Category::temporary);
  const at::Tensor losses_N = run.empty({rows}, Category::temporary, at::kDouble);
  std::optional<SplitCrossEntropy> split;
  if (group.is_split()) split.emplace(run, group, chunk_rows);
  for (int64_t begin = 0; begin < rows; begin += chunk_rows) {
    const int64_t count = std::min(chunk_rows, rows - begin);
    const at::Tensor x = x_NH.narrow(0, begin, count), logits_NV = logits.narrow(0, 0, count);
    linear(run, logits_NV, x, weight_VH, no_bias);
    const at::Tensor losses = losses_N.narrow(0, begin, count), targets = targets_N.narrow(0, begin, count);
    split ? (*split)(logits_NV, losses, targets, dx_NH.defined())
          : cross_entropy(run, logits_NV, losses, targets, dx_NH.defined());
    if (!dx_NH.defined()) continue;
    linear_backward_input(run, dx_NH.narrow(0, begin, count), logits_NV, weight_VH);
    linear_backward_weight(run, weight_VH, no_bias, logits_NV, x);
  }
  comm::Pending sum = dx_NH.defined() ? group.all_reduce(dx_NH) : comm::Pending();
  run.run("sum", {0, static_cast<int64_t>(losses_N.nbytes())}, [&] { loss_sum.add_(losses_N.sum()); });
  sum.wait();
}

}  // namespace muster::nn
