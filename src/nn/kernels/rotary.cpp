#include "nn/kernels/kernels.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/vector_math.h"
#include "nn/kernels/wide.h"

namespace muster::nn::kernels {
namespace {

template <class T>
MUSTER_CLONES void rotate_row(T* x, const wide_t<T>* cos, const wide_t<T>* sin, int64_t heads, int64_t half) {
  for (int64_t head = 0; head < heads; ++head, x += 2 * half)
#pragma GCC ivdep
    for (int64_t i = 0; i < half; ++i) {
      const wide_t<T> first = wide(x[i]), second = wide(x[i + half]);
      x[i] = rounded<T>(first * cos[i] - second * sin[i]);
      x[i + half] = rounded<T>(second * cos[i] + first * sin[i]);
    }
}

template <class T>
MUSTER_CLONES void rotate_row_back(T* out, const T* x, const wide_t<T>* cos, const wide_t<T>* sin,
                                   int64_t heads, int64_t half) {
  for (int64_t head = 0; head < heads; ++head, x += 2 * half, out += 2 * half)
#pragma GCC ivdep
    for (int64_t i = 0; i < half; ++i) {
      const wide_t<T> first = wide(x[i]), second = wide(x[i + half]);
      out[i] = rounded<T>(first * cos[i] + second * sin[i]);
      out[i + half] = rounded<T>(second * cos[i] - first * sin[i]);
    }
}

}  // namespace

template <class T>
void rotate(T* x, const wide_t<T>* cos, const wide_t<T>* sin, int64_t rows, int64_t length, int64_t heads,
            int64_t head_dim, int64_t row_size) {
  const int64_t half = head_dim / 2;
  over_rows(rows, heads * head_dim, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t angle = row % length * half;
      rotate_row(x + row * row_size, cos + angle, sin + angle, heads, half);
    }
  });
}

template <class T>
void rotate_back(T* out, const T* x, const wide_t<T>* cos, const wide_t<T>* sin, int64_t rows, int64_t length,
                 int64_t heads, int64_t head_dim, int64_t out_row_size, int64_t x_row_size) {
  const int64_t half = head_dim / 2;
  over_rows(rows, heads * head_dim, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t angle = row % length * half;
      rotate_row_back(out + row * out_row_size, x + row * x_row_size, cos + angle, sin + angle, heads, half);
    }
  });
}

MUSTER_INSTANTIATE(rotate);
MUSTER_INSTANTIATE(rotate_back);

}  // namespace muster::nn::kernels
