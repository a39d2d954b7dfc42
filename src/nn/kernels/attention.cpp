#include <algorithm>
#include <cmath>
#include <limits>

#include "nn/kernels/kernels.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/vector_math.h"
#include "nn/kernels/wide.h"

namespace muster::nn::kernels {
namespace {

constexpr int64_t kLanes =
    16;  // rows are worked on in whole vectors; what lies behind their end is zeroed after

template <class T>
MUSTER_CLONES void softmax_rows(T* p, T* lse, int64_t rows, int64_t columns, int64_t first, T scale) {
  for (int64_t row = 0; row < rows; ++row, p += columns) {
    const int64_t seen = first + row + 1, worked = std::min(columns, (seen + kLanes - 1) / kLanes * kLanes);
    for (int64_t i = seen; i < worked; ++i) p[i] = -std::numeric_limits<T>::infinity();
    T most = p[0];
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < worked; ++i) most = p[i] > most ? p[i] : most;
    const T shift = most * scale;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < worked; ++i) {
      p[i] = exp_of(p[i] * scale - shift);
      sum += p[i];
    }
    lse[row] = shift + std::log(sum);
    const T share = T(1) / sum;
    for (int64_t i = 0; i < worked; ++i) p[i] *= share;
    for (int64_t i = seen; i < columns; ++i) p[i] = 0;
  }
}

template <class T, class W>
MUSTER_CLONES void softmax_backward_rows(W* __restrict p, W* __restrict dp, const W* lse, const T* out,
                                         const T* dout, int64_t row_size, int64_t head_dim, int64_t rows,
                                         int64_t columns, int64_t first, W scale) {
  for (int64_t row = 0; row < rows; ++row, p += columns, dp += columns, out += row_size, dout += row_size) {
    const int64_t seen = first + row + 1, worked = std::min(columns, (seen + kLanes - 1) / kLanes * kLanes);
    W pull = 0;
#pragma omp simd reduction(+ : pull)
    for (int64_t i = 0; i < head_dim; ++i) pull += wide(out[i]) * wide(dout[i]);
    const W shift = lse[row];
    for (int64_t i = 0; i < worked; ++i) {
      const W share = exp_of(p[i] * scale - shift);
      p[i] = share;
      dp[i] = share * (dp[i] - pull) * scale;
    }
    for (int64_t i = seen; i < columns; ++i) p[i] = dp[i] = 0;
  }
}

template <class T, class W>
MUSTER_CLONES void merge_rows(T* __restrict out, W* lse, const W* __restrict more, const W* more_lse,
                              int64_t row_size, int64_t head_dim, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row, out += row_size, more += head_dim) {
    const W most = std::max(lse[row], more_lse[row]);
    const W mine = std::exp(lse[row] - most), theirs = std::exp(more_lse[row] - most), sum = mine + theirs;
    const W keep = mine / sum, take = theirs / sum;
#pragma omp simd
    for (int64_t i = 0; i < head_dim; ++i) out[i] = rounded<T>(wide(out[i]) * keep + more[i] * take);
    lse[row] = most + std::log(sum);
  }
}

}  // namespace

template <class T>
void causal_softmax(T* scores, T* lse, int64_t rows, int64_t columns, int64_t first, double scale) {
  softmax_rows(scores, lse, rows, columns, first, static_cast<T>(scale));
}

template <class T>
void causal_softmax_backward(wide_t<T>* scores, wide_t<T>* dp, const wide_t<T>* lse, const T* out,
                             const T* dout, int64_t row_size, int64_t head_dim, int64_t rows, int64_t columns,
                             int64_t first, double scale) {
  softmax_backward_rows(scores, dp, lse, out, dout, row_size, head_dim, rows, columns, first,
                        static_cast<wide_t<T>>(scale));
}

template <class T>
void merge_softmax(T* out, wide_t<T>* lse, const wide_t<T>* more, const wide_t<T>* more_lse, int64_t row_size,
                   int64_t head_dim, int64_t rows) {
  merge_rows(out, lse, more, more_lse, row_size, head_dim, rows);
}

template void causal_softmax(float*, float*, int64_t, int64_t, int64_t, double);
template void causal_softmax(double*, double*, int64_t, int64_t, int64_t, double);
MUSTER_INSTANTIATE(causal_softmax_backward);
MUSTER_INSTANTIATE(merge_softmax);

}  // namespace muster::nn::kernels
