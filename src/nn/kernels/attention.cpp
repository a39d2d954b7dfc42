#include <algorithm>
#include <cmath>
#include <limits>

#include "nn/kernels/kernels.h"
#include "nn/kernels/vector_math.h"

namespace muster::nn::kernels {
namespace {

constexpr int64_t kLanes =
    16;  // rows are worked on in whole vectors; what lies behind their end is zeroed after

template <class T>
MUSTER_CLONES void softmax_rows(T* p, T* lse, int64_t rows, int64_t columns, int64_t first, T scale) {
  for (int64_t row = 0; row < rows; ++row, p += columns) {
    const int64_t seen = first + row + 1, wide = std::min(columns, (seen + kLanes - 1) / kLanes * kLanes);
    for (int64_t i = seen; i < wide; ++i) p[i] = -std::numeric_limits<T>::infinity();
    T most = p[0];
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < wide; ++i) most = p[i] > most ? p[i] : most;
    const T shift = most * scale;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < wide; ++i) {
      p[i] = exp_of(p[i] * scale - shift);
      sum += p[i];
    }
    lse[row] = shift + std::log(sum);
    const T share = T(1) / sum;
    for (int64_t i = 0; i < wide; ++i) p[i] *= share;
    for (int64_t i = seen; i < columns; ++i) p[i] = 0;
  }
}

template <class T>
MUSTER_CLONES void softmax_backward_rows(T* __restrict p, T* __restrict dp, const T* lse, const T* out,
                                         const T* dout, int64_t row_size, int64_t head_dim, int64_t rows,
                                         int64_t columns, int64_t first, T scale) {
  for (int64_t row = 0; row < rows; ++row, p += columns, dp += columns, out += row_size, dout += row_size) {
    const int64_t seen = first + row + 1, wide = std::min(columns, (seen + kLanes - 1) / kLanes * kLanes);
    T pull = 0;
#pragma omp simd reduction(+ : pull)
    for (int64_t i = 0; i < head_dim; ++i) pull += out[i] * dout[i];
    const T shift = lse[row];
    for (int64_t i = 0; i < wide; ++i) {
      const T share = exp_of(p[i] * scale - shift);
      p[i] = share;
      dp[i] = share * (dp[i] - pull) * scale;
    }
    for (int64_t i = seen; i < columns; ++i) p[i] = dp[i] = 0;
  }
}

template <class T>
MUSTER_CLONES void merge_rows(T* __restrict out, T* lse, const T* __restrict more, const T* more_lse,
                              int64_t row_size, int64_t head_dim, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row, out += row_size, more += head_dim) {
    const T most = std::max(lse[row], more_lse[row]);
    const T mine = std::exp(lse[row] - most), theirs = std::exp(more_lse[row] - most), sum = mine + theirs;
    const T keep = mine / sum, take = theirs / sum;
#pragma omp simd
    for (int64_t i = 0; i < head_dim; ++i) out[i] = out[i] * keep + more[i] * take;
    lse[row] = most + std::log(sum);
  }
}

}  // namespace

template <class T>
void causal_softmax(T* scores, T* lse, int64_t rows, int64_t columns, int64_t first, double scale) {
  softmax_rows(scores, lse, rows, columns, first, static_cast<T>(scale));
}

template <class T>
void causal_softmax_backward(T* scores, T* dp, const T* lse, const T* out, const T* dout, int64_t row_size,
                             int64_t head_dim, int64_t rows, int64_t columns, int64_t first, double scale) {
  softmax_backward_rows(scores, dp, lse, out, dout, row_size, head_dim, rows, columns, first,
                        static_cast<T>(scale));
}

template <class T>
void merge_softmax(T* out, T* lse, const T* more, const T* more_lse, int64_t row_size, int64_t head_dim,
                   int64_t rows) {
  merge_rows(out, lse, more, more_lse, row_size, head_dim, rows);
}

template void merge_softmax(float*, float*, const float*, const float*, int64_t, int64_t, int64_t);
template void merge_softmax(double*, double*, const double*, const double*, int64_t, int64_t, int64_t);
template void causal_softmax(float*, float*, int64_t, int64_t, int64_t, double);
template void causal_softmax(double*, double*, int64_t, int64_t, int64_t, double);
template void causal_softmax_backward(float*, float*, const float*, const float*, const float*, int64_t,
                                      int64_t, int64_t, int64_t, int64_t, double);
template void causal_softmax_backward(double*, double*, const double*, const double*, const double*, int64_t,
                                      int64_t, int64_t, int64_t, int64_t, double);

}  // namespace muster::nn::kernels
