#include "nn/ops/loss.h"

#include <algorithm>
#include <optional>

#include "base/units.h"
#include "nn/gathered_rows.h"
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
  SplitCrossEntropy(Executor& run, const TensorGroup& group, int64_t first_id, int64_t chunk_rows)
      : run_(run),
        group_(group),
        first_id_(first_id),
        most_(run.empty({chunk_rows}, Category::temporary)),
        sums_(run.empty({2 * chunk_rows}, Category::temporary, at::kDouble)) {}

  void operator()(const at::Tensor& logits_NV, const at::Tensor& losses_N, const at::Tensor& targets_N,
                  bool gradient) {
    const int64_t rows = logits_NV.size(0);
    const Cost cost{0, 2 * static_cast<int64_t>(logits_NV.nbytes())};
    const at::Tensor most_N = most_.narrow(0, 0, rows),
                     sums_2N = sums_.narrow(0, 0, 2 * rows).view({2, rows});
    run_.run("largest_logit", cost, [&] { largest_logit(most_N, logits_NV); });
    group_.all_reduce(most_N, comm::Reduce::maximum).wait();
    run_.run("exp_sums", cost, [&] { exp_sums(logits_NV, sums_2N, most_N, targets_N, first_id_, gradient); });
    group_.all_reduce(sums_2N).wait();
    run_.run("cross_entropy", cost, [&] {
      split_cross_entropy(logits_NV, losses_N, sums_2N, most_N, targets_N, first_id_, gradient);
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
  int64_t first_id_;
  at::Tensor most_, sums_;
};

// The rows of the table that stand for ids. Their gradient is written where the table's is.
class Head {
 public:
  Head(Weight& table_VH, VocabularyPart part) : table_(table_VH), ids_(table_VH) {
    ids_.value = table_VH.value.narrow(0, 0, part.ids);
    ids_.gradient = table_VH.gradient.narrow(0, 0, part.ids);
    const int64_t padding = table_VH.value.size(0) - part.ids;
    if (padding > 0) padding_ = table_VH.gradient.narrow(0, part.ids, padding);
  }
  const Weight& weight() const { return ids_; }
  void backward_weight(Executor& run, const at::Tensor& dlogits_NV, const at::Tensor& x_NH) {
    Weight no_bias;
    if (!table_.accumulate() && padding_.defined()) run.run("zero", {}, [&] { padding_.zero_(); });
    linear_backward_weight(run, ids_, no_bias, dlogits_NV, x_NH);
  }

 private:
  Weight& table_;
  Weight ids_;
  at::Tensor padding_;
};

// Chunks of the rows that this rank has; of those of the whole group where they are shared.
class LossChunks {
 public:
  LossChunks(Executor& run, const TensorGroup& group, const at::Tensor& x_MH, const at::Tensor& targets_N,
             int64_t chunk_rows)
      : run_(run), group_(group), x_MH_(x_MH), targets_N_(targets_N), rows_(x_MH.size(0)) {
    const int64_t most = std::max<int64_t>(1, chunk_rows / group.row_shares());
    const int64_t chunks = (rows_ + most - 1) / most;
    chunk_ = (rows_ + chunks - 1) / chunks;
  }

  int64_t most_rows() const { return chunk_ * group_.row_shares(); }
  int64_t rows() const { return rows_ * group_.row_shares(); }
  // body(x, targets of all its rows, begin, count): rows [begin, begin + count) of this rank.
  template <class Body>
  void for_each(Body&& body) {
    std::optional<GatheredRows> next = gather(0);
    for (int64_t begin = 0; begin < rows_; begin += chunk_) {
      GatheredRows x = std::move(*next);
      next = gather(begin + chunk_);
      body(x.whole(), targets(begin), begin, count(begin));
    }
  }

 private:
  int64_t count(int64_t begin) const { return std::min(chunk_, rows_ - begin); }
  std::optional<GatheredRows> gather(int64_t begin) const {
    if (begin >= rows_) return std::nullopt;
    return GatheredRows(run_, group_, x_MH_.narrow(0, begin, count(begin)));
  }
  // In the order in which the ranks' rows are gathered.
  at::Tensor targets(int64_t begin) const {
    if (!group_.shares_rows()) return targets_N_.narrow(0, begin, count(begin));
    const at::Tensor chunk = targets_N_.view({group_.size(), rows_}).narrow(1, begin, count(begin));
    const at::Tensor copy = run_.empty(chunk.sizes(), Category::temporary, chunk.scalar_type());
    run_.run("copy", {0, 2 * static_cast<int64_t>(copy.nbytes())}, [&] { copy.copy_(chunk); });
    return copy.view({-1});
  }

  Executor& run_;
  const TensorGroup& group_;
  const at::Tensor &x_MH_, &targets_N_;
  int64_t rows_, chunk_ = 0;
};

// The gradient of x: where rows are shared each chunk's is summed at once, else all in one message.
class InputGradient {
 public:
  InputGradient(Executor& run, const TensorGroup& group, at::Tensor dx_MH)
      : run_(run), group_(group), dx_MH_(std::move(dx_MH)) {}

  bool is_wanted() const { return dx_MH_.defined(); }
  void start(const at::Tensor& dlogits_NV, const Weight& weight, int64_t begin, int64_t count) {
    const at::Tensor own = dx_MH_.narrow(0, begin, count);
    if (!group_.shares_rows()) return linear_backward_input(run_, own, dlogits_NV, weight);
    dx_NH_ = run_.empty({dlogits_NV.size(0), own.size(1)}, Category::temporary);
    linear_backward_input(run_, dx_NH_, dlogits_NV, weight);
    sum_ = group_.reduce_scatter(own, dx_NH_);
  }
  void finish_chunk() {
    sum_.wait();
    dx_NH_ = at::Tensor();
  }
  comm::Pending finish() {
    return is_wanted() && !group_.shares_rows() ? group_.all_reduce(dx_MH_) : comm::Pending();
  }

 private:
  Executor& run_;
  const TensorGroup& group_;
  at::Tensor dx_MH_, dx_NH_;
  comm::Pending sum_;
};

}  // namespace

int64_t loss_chunk_rows(int64_t rows, int64_t vocabulary, int64_t element_bytes, int64_t asked) {
  const int64_t most =
      asked > 0 ? std::min(asked, rows) : std::max<int64_t>(16, kChunkBytes / (vocabulary * element_bytes));
  const int64_t chunks = (rows + most - 1) / most;
  return (rows + chunks - 1) / chunks;
}

void linear_cross_entropy(Executor& run, const TensorGroup& group, at::Tensor loss_sum, at::Tensor dx_MH,
                          const at::Tensor& x_MH, Weight& weight_VH, VocabularyPart part,
                          const at::Tensor& targets_N, int64_t chunk_rows) {
  LossChunks chunks(run, group, x_MH, targets_N, chunk_rows);
  Head head(weight_VH, part);
  InputGradient dx(run, group, std::move(dx_MH));
  const at::Tensor logits = run.empty({chunks.most_rows(), part.ids}, Category::temporary);
  const at::Tensor losses_N = run.empty({chunks.rows()}, Category::temporary, at::kDouble);
  std::optional<SplitCrossEntropy> split;
  if (group.is_split()) split.emplace(run, group, part.first_id, chunks.most_rows());
  chunks.for_each([&](const at::Tensor& x_NH, const at::Tensor& targets, int64_t begin, int64_t count) {
    const int64_t rows = x_NH.size(0);
    const at::Tensor logits_NV = logits.narrow(0, 0, rows);
    const at::Tensor losses = losses_N.narrow(0, begin * group.row_shares(), rows);
    linear(run, logits_NV, x_NH, head.weight(), {});
    split ? (*split)(logits_NV, losses, targets, dx.is_wanted())
          : cross_entropy(run, logits_NV, losses, targets, dx.is_wanted());
    if (!dx.is_wanted()) return;
    dx.start(logits_NV, head.weight(), begin, count);
    head.backward_weight(run, logits_NV, x_NH);
    dx.finish_chunk();
  });
  comm::Pending sum = dx.finish();
  run.run("sum", {0, static_cast<int64_t>(losses_N.nbytes())}, [&] { loss_sum.add_(losses_N.sum()); });
  sum.wait();
}

}  // namespace muster::nn
