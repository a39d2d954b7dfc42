#include <cmath>
#include <vector>

#include "nn/kernels/kernels.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/vector_math.h"

namespace muster::nn::kernels {
namespace {

// Rows whose share of a weight's gradient is summed before it joins the others, whichever thread runs them.
constexpr int64_t kBlockRows = 64;

template <class T>
MUSTER_CLONES void rms_rows(T* y, T* rstd, const T* x, const T* w, int64_t rows, int64_t size, T eps) {
  for (int64_t row = 0; row < rows; ++row, x += size, y += size) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < size; ++i) sum += x[i] * x[i];
    const T scale = T(1) / std::sqrt(sum / static_cast<T>(size) + eps);
    rstd[row] = scale;
    for (int64_t i = 0; i < size; ++i) y[i] = x[i] * scale * w[i];
  }
}

template <class T>
MUSTER_CLONES void rms_again_rows(T* y, const T* rstd, const T* x, const T* w, int64_t rows, int64_t size) {
  for (int64_t row = 0; row < rows; ++row, x += size, y += size) {
    const T scale = rstd[row];
    for (int64_t i = 0; i < size; ++i) y[i] = x[i] * scale * w[i];
  }
}

template <class T>
MUSTER_CLONES void rms_backward_rows(T* dx, T* dw, const T* dy, const T* x, const T* rstd, const T* w,
                                     int64_t rows, int64_t size) {
  for (int64_t row = 0; row < rows; ++row, x += size, dy += size, dx += size) {
    const T scale = rstd[row];
    T dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < size; ++i) dot += dy[i] * w[i] * x[i];
    const T pull = dot * scale * scale * scale / static_cast<T>(size);
    for (int64_t i = 0; i < size; ++i) {
      dx[i] += dy[i] * w[i] * scale - x[i] * pull;
      dw[i] += dy[i] * x[i] * scale;
    }
  }
}

template <class T>
MUSTER_CLONES void moments_rows(T* mean, T* rstd, const T* x, int64_t rows, int64_t size, T eps) {
  for (int64_t row = 0; row < rows; ++row, x += size) {
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < size; ++i) sum += x[i];
    const T center = sum / static_cast<T>(size);
    T squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < size; ++i) squares += (x[i] - center) * (x[i] - center);
    mean[row] = center;
    rstd[row] = T(1) / std::sqrt(squares / static_cast<T>(size) + eps);
  }
}

template <class T>
MUSTER_CLONES void centered_rows(T* y, const T* mean, const T* rstd, const T* x, const T* w, const T* b,
                                 int64_t rows, int64_t size) {
  for (int64_t row = 0; row < rows; ++row, x += size, y += size) {
    const T center = mean[row], scale = rstd[row];
    for (int64_t i = 0; i < size; ++i) y[i] = (x[i] - center) * scale * w[i] + b[i];
  }
}

template <class T>
MUSTER_CLONES void layer_backward_rows(T* dx, T* dw, T* db, const T* dy, const T* x, const T* mean,
                                       const T* rstd, const T* w, int64_t rows, int64_t size) {
  for (int64_t row = 0; row < rows; ++row, x += size, dy += size, dx += size) {
    const T center = mean[row], scale = rstd[row];
    T sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
    for (int64_t i = 0; i < size; ++i) {
      sum += dy[i] * w[i];
      dot += dy[i] * w[i] * (x[i] - center);
    }
    const T shift = sum / static_cast<T>(size);
    const T pull = dot * scale * scale / static_cast<T>(size);
    for (int64_t i = 0; i < size; ++i) {
      const T centered = x[i] - center;
      dx[i] += scale * (dy[i] * w[i] - shift - centered * pull);
      dw[i] += dy[i] * centered * scale;
      db[i] += dy[i];
    }
  }
}

// Sums over rows, `vectors` of `size` for each block: body(sums of the block, first row, rows), in any
// thread.
template <class T, class Body>
std::vector<T> block_sums(int64_t rows, int64_t size, int64_t vectors, Body&& body) {
  const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  std::vector<T> sums(static_cast<size_t>(blocks * vectors * size));
  over_rows(blocks, kBlockRows * size, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t row = block * kBlockRows;
      body(sums.data() + block * vectors * size, row, std::min(kBlockRows, rows - row));
    }
  });
  return sums;
}

// Adds vector `which` of all blocks, in block order, into `out`.
template <class T>
void add_blocks(T* out, bool accumulate, const std::vector<T>& sums, int64_t size, int64_t vectors,
                int64_t which) {
  if (!accumulate) std::fill(out, out + size, T(0));
  for (size_t block = 0; block < sums.size(); block += static_cast<size_t>(vectors * size))
    for (int64_t i = 0; i < size; ++i) out[i] += sums[block + static_cast<size_t>(which * size + i)];
}

}  // namespace

template <class T>
void rms_norm(T* y, T* rstd, const T* x, const T* w, int64_t rows, int64_t size, double eps) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    rms_rows(y + begin * size, rstd + begin, x + begin * size, w, end - begin, size, static_cast<T>(eps));
  });
}

template <class T>
void rms_norm_again(T* y, const T* rstd, const T* x, const T* w, int64_t rows, int64_t size) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    rms_again_rows(y + begin * size, rstd + begin, x + begin * size, w, end - begin, size);
  });
}

template <class T>
void rms_norm_backward(T* dx, T* dw, bool accumulate_dw, const T* dy, const T* x, const T* rstd, const T* w,
                       int64_t rows, int64_t size) {
  const auto sums = block_sums<T>(rows, size, 1, [=](T* block, int64_t row, int64_t count) {
    const int64_t at = row * size;
    rms_backward_rows(dx + at, block, dy + at, x + at, rstd + row, w, count, size);
  });
  add_blocks(dw, accumulate_dw, sums, size, 1, 0);
}

template <class T>
void layer_norm(T* y, T* mean, T* rstd, const T* x, const T* w, const T* b, int64_t rows, int64_t size,
                double eps) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    moments_rows(mean + begin, rstd + begin, x + begin * size, end - begin, size, static_cast<T>(eps));
    centered_rows(y + begin * size, mean + begin, rstd + begin, x + begin * size, w, b, end - begin, size);
  });
}

template <class T>
void layer_norm_again(T* y, const T* mean, const T* rstd, const T* x, const T* w, const T* b, int64_t rows,
                      int64_t size) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    centered_rows(y + begin * size, mean + begin, rstd + begin, x + begin * size, w, b, end - begin, size);
  });
}

template <class T>
void layer_norm_backward(T* dx, T* dw, T* db, bool accumulate_dw, bool accumulate_db, const T* dy, const T* x,
                         const T* mean, const T* rstd, const T* w, int64_t rows, int64_t size) {
  const auto sums = block_sums<T>(rows, size, 2, [=](T* block, int64_t row, int64_t count) {
    const int64_t at = row * size;
    layer_backward_rows(dx + at, block, block + size, dy + at, x + at, mean + row, rstd + row, w, count,
                        size);
  });
  add_blocks(dw, accumulate_dw, sums, size, 2, 0);
  add_blocks(db, accumulate_db, sums, size, 2, 1);
}

MUSTER_INSTANTIATE(rms_norm);
MUSTER_INSTANTIATE(rms_norm_again);
MUSTER_INSTANTIATE(rms_norm_backward);
MUSTER_INSTANTIATE(layer_norm);
MUSTER_INSTANTIATE(layer_norm_again);
MUSTER_INSTANTIATE(layer_norm_backward);

}  // namespace muster::nn::kernels
