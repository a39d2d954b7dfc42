#include <cmath>
#include <limits>

#include "nn/kernels/kernels.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/vector_math.h"
#include "nn/kernels/wide.h"

namespace muster::nn::kernels {
namespace {

template <class T>
MUSTER_CLONES wide_t<T> largest(const T* row, int64_t size) {
  wide_t<T> most = -std::numeric_limits<wide_t<T>>::infinity();
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < size; ++i) most = wide(row[i]) > most ? wide(row[i]) : most;
  return most;
}

// Short runs are summed in the wide type and joined in fp64, so that a long vocabulary loses nothing.
constexpr int64_t kRun = 1024;

template <class T>
MUSTER_CLONES T exp_run(T* row, int64_t size, T most) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) {
    const T e = exp_of(row[i] - most);
    row[i] = e;
    sum += e;
  }
  return sum;
}

template <class T>
MUSTER_CLONES wide_t<T> exp_sum_run(const T* row, int64_t size, wide_t<T> most) {
  wide_t<T> sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) sum += exp_of(wide(row[i]) - most);
  return sum;
}

template <class T>
MUSTER_CLONES void scale_row(T* row, int64_t size, T by) {
  for (int64_t i = 0; i < size; ++i) row[i] *= by;
}

template <class T>
MUSTER_CLONES void softmax_row(T* row, int64_t size, wide_t<T> most, wide_t<T> share) {
  for (int64_t i = 0; i < size; ++i) row[i] = rounded<T>(exp_of(wide(row[i]) - most) * share);
}

// The sum of the exponentials; with `keep` they take the logits' place, unless they would be rounded there.
template <class T>
double exp_row(T* row, int64_t size, wide_t<T> most, bool keep) {
  double sum = 0;
  for (int64_t at = 0; at < size; at += kRun) {
    const int64_t run = std::min(kRun, size - at);
    if constexpr (!kIsNarrow<T>)
      if (keep) {
        sum += exp_run(row + at, run, most);
        continue;
      }
    sum += exp_sum_run(row + at, run, most);
  }
  return sum;
}

// share * exponentials - onehot(target), from what exp_row has left. No target: < 0.
template <class T>
void gradient_row(T* row, int64_t size, wide_t<T> most, wide_t<T> share, int64_t target) {
  if constexpr (kIsNarrow<T>) {
    const wide_t<T> logit = target < 0 ? 0 : wide(row[target]);
    softmax_row(row, size, most, share);
    if (target >= 0) row[target] = rounded<T>(exp_of(logit - most) * share - 1);
  } else {
    scale_row(row, size, share);
    if (target >= 0) row[target] -= T(1);
  }
}

template <class T>
double one_row(T* row, int32_t target, int64_t size, bool gradient) {
  if (target < 0) {
    if (gradient) std::fill(row, row + size, T{});
    return 0;
  }
  const wide_t<T> most = largest(row, size);
  const double logit = wide(row[target]);
  const double sum = exp_row(row, size, most, gradient);
  if (gradient) gradient_row(row, size, most, static_cast<wide_t<T>>(1 / sum), target);
  return std::log(sum) + static_cast<double>(most) - logit;
}

}  // namespace

template <class T>
void cross_entropy(T* logits, double* losses, const int32_t* targets, int64_t rows, int64_t vocabulary,
                   bool gradient) {
  over_rows(rows, vocabulary, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      losses[row] = one_row(logits + row * vocabulary, targets[row], vocabulary, gradient);
  });
}

template <class T>
void largest_logit(T* most, const T* logits, int64_t rows, int64_t size) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) most[row] = rounded<T>(largest(logits + row * size, size));
  });
}

template <class T>
void exp_sums(T* logits, double* sums, double* picked, const T* most, const int32_t* targets, int64_t rows,
              int64_t size, int64_t first_id, bool gradient) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* logit = logits + row * size;
      const int64_t target = targets[row] - first_id;
      picked[row] =
          targets[row] >= 0 && target >= 0 && target < size ? static_cast<double>(wide(logit[target])) : 0;
      sums[row] = exp_row(logit, size, wide(most[row]), gradient);
    }
  });
}

template <class T>
void split_cross_entropy(T* exps, double* losses, const double* sums, const double* picked, const T* most,
                         const int32_t* targets, int64_t rows, int64_t size, int64_t first_id,
                         bool gradient) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const bool counted = targets[row] >= 0;
      losses[row] = counted ? std::log(sums[row]) + static_cast<double>(wide(most[row])) - picked[row] : 0;
      if (!gradient) continue;
      const int64_t target = targets[row] - first_id;
      const wide_t<T> share = counted ? static_cast<wide_t<T>>(1 / sums[row]) : 0;
      gradient_row(exps + row * size, size, wide(most[row]), share,
                   counted && target >= 0 && target < size ? target : -1);
    }
  });
}

MUSTER_INSTANTIATE(cross_entropy);
MUSTER_INSTANTIATE(largest_logit);
MUSTER_INSTANTIATE(exp_sums);
MUSTER_INSTANTIATE(split_cross_entropy);

}  // namespace muster::nn::kernels
