#include <cmath>
#include <limits>

#include "nn/kernels/kernels.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/vector_math.h"

namespace muster::nn::kernels {
namespace {

template <class T>
MUSTER_CLONES T largest(const T* row, int64_t size) {
  T most = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < size; ++i) most = row[i] > most ? row[i] : most;
  return most;
}

// Short runs are summed in T and joined in fp64, so that a long vocabulary loses nothing.
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
MUSTER_CLONES T exp_sum_run(const T* row, int64_t size, T most) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < size; ++i) sum += exp_of(row[i] - most);
  return sum;
}

template <class T>
MUSTER_CLONES void scale_row(T* row, int64_t size, T by) {
  for (int64_t i = 0; i < size; ++i) row[i] *= by;
}

template <class T>
double exp_row(T* row, int64_t size, T most, bool keep) {
  double sum = 0;
  for (int64_t at = 0; at < size; at += kRun) {
    const int64_t run = std::min(kRun, size - at);
    sum += keep ? exp_run(row + at, run, most) : exp_sum_run(row + at, run, most);
  }
  return sum;
}

template <class T>
double one_row(T* row, int32_t target, int64_t size, bool gradient) {
  if (target < 0) {
    if (gradient) std::fill(row, row + size, T(0));
    return 0;
  }
  const T most = largest(row, size);
  const double logit = row[target];
  const double sum = exp_row(row, size, most, gradient);
  if (gradient) {
    scale_row(row, size, static_cast<T>(1 / sum));
    row[target] -= T(1);
  }
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
    for (int64_t row = begin; row < end; ++row) most[row] = largest(logits + row * size, size);
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
          targets[row] >= 0 && target >= 0 && target < size ? static_cast<double>(logit[target]) : 0;
      sums[row] = exp_row(logit, size, most[row], gradient);
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
      losses[row] = counted ? std::log(sums[row]) + static_cast<double>(most[row]) - picked[row] : 0;
      if (!gradient) continue;
      const int64_t target = targets[row] - first_id;
      scale_row(exps + row * size, size, counted ? static_cast<T>(1 / sums[row]) : T(0));
      if (counted && target >= 0 && target < size) exps[row * size + target] -= T(1);
    }
  });
}

MUSTER_INSTANTIATE(cross_entropy);
MUSTER_INSTANTIATE(largest_logit);
MUSTER_INSTANTIATE(exp_sums);
MUSTER_INSTANTIATE(split_cross_entropy);

}  // namespace muster::nn::kernels
