#include <cmath>
#include <vector>

#include "nn/kernels/kernels.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/vector_math.h"
#include "nn/kernels/wide.h"

namespace muster::nn::kernels {
namespace {

// Rows whose share of a weight's gradient is summed before it joins the others, whichever thread runs them.
constexpr int64_t kBlockRows = 64;

template <class T>
MUSTER_CLONES void rms_rows(T* y, wide_t<T>* rstd, const T* x, const T* w, int64_t rows, int64_t size,
                            wide_t<T> eps) {
  using W = wide_t<T>;
  for (int64_t row = 0; row < rows; ++row, x += size, y += size) {
    W sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < size; ++i) sum += wide(x[i]) * wide(x[i]);
    const W scale = W(1) / std::sqrt(sum / static_cast<W>(size) + eps);
    rstd[row] = scale;
    for (int64_t i = 0; i < size; ++i) y[i] = rounded<T>(wide(x[i]) * scale * wide(w[i]));
  }
}

template <class T>
MUSTER_CLONES void rms_again_rows(T* y, const wide_t<T>* rstd, const T* x, const T* w, int64_t rows,
                                  int64_t size) {
  for (int64_t row = 0; row < rows; ++row, x += size, y += size) {
    const wide_t<T> scale = rstd[row];
    for (int64_t i = 0; i < size; ++i) y[i] = rounded<T>(wide(x[i]) * scale * wide(w[i]));
  }
}

template <class T>
MUSTER_CLONES void rms_backward_rows(T* dx, wide_t<T>* dw, const T* dy, const T* x, const wide_t<T>* rstd,
                                     const T* w, int64_t rows, int64_t size) {
  using W = wide_t<T>;
  for (int64_t row = 0; row < rows; ++row, x += size, dy += size, dx += size) {
    const W scale = rstd[row];
    W dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < size; ++i) dot += wide(dy[i]) * wide(w[i]) * wide(x[i]);
    const W pull = dot * scale * scale * scale / static_cast<W>(size);
    for (int64_t i = 0; i < size; ++i) {
      dx[i] = rounded<T>(wide(dx[i]) + (wide(dy[i]) * wide(w[i]) * scale - wide(x[i]) * pull));
      dw[i] += wide(dy[i]) * wide(x[i]) * scale;
    }
  }
}

template <class T>
MUSTER_CLONES void moments_rows(wide_t<T>* mean, wide_t<T>* rstd, const T* x, int64_t rows, int64_t size,
                                wide_t<T> eps) {
  using W = wide_t<T>;
  for (int64_t row = 0; row < rows; ++row, x += size) {
    W sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < size; ++i) sum += wide(x[i]);
    const W center = sum / static_cast<W>(size);
    W squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < size; ++i) squares += (wide(x[i]) - center) * (wide(x[i]) - center);
    mean[row] = center;
    rstd[row] = W(1) / std::sqrt(squares / static_cast<W>(size) + eps);
  }
}

template <class T>
MUSTER_CLONES void centered_rows(T* y, const wide_t<T>* mean, const wide_t<T>* rstd, const T* x, const T* w,
                                 const T* b, int64_t rows, int64_t size) {
  for (int64_t row = 0; row < rows; ++row, x += size, y += size) {
    const wide_t<T> center = mean[row], scale = rstd[row];
    for (int64_t i = 0; i < size; ++i)
      y[i] = rounded<T>((wide(x[i]) - center) * scale * wide(w[i]) + wide(b[i]));
  }
}

template <class T>
MUSTER_CLONES void layer_backward_rows(T* dx, wide_t<T>* dw, wide_t<T>* db, const T* dy, const T* x,
                                       const wide_t<T>* mean, const wide_t<T>* rstd, const T* w, int64_t rows,
                                       int64_t size) {
  using W = wide_t<T>;
  for (int64_t row = 0; row < rows; ++row, x += size, dy += size, dx += size) {
    const W center = mean[row], scale = rstd[row];
    W sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
    for (int64_t i = 0; i < size; ++i) {
      sum += wide(dy[i]) * wide(w[i]);
      dot += wide(dy[i]) * wide(w[i]) * (wide(x[i]) - center);
    }
    const W shift = sum / static_cast<W>(size);
    const W pull = dot * scale * scale / static_cast<W>(size);
    for (int64_t i = 0; i < size; ++i) {
      const W centered = wide(x[i]) - center;
      dx[i] = rounded<T>(wide(dx[i]) + scale * (wide(dy[i]) * wide(w[i]) - shift - centered * pull));
      dw[i] += wide(dy[i]) * centered * scale;
      db[i] += wide(dy[i]);
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
template <class G>
void add_blocks(G* out, bool accumulate, const std::vector<wide_t<G>>& sums, int64_t size, int64_t vectors,
                int64_t which) {
  RoundedSums<G> total(out, size, accumulate);
  wide_t<G>* to = total.data();
  for (size_t block = 0; block < sums.size(); block += static_cast<size_t>(vectors * size))
    for (int64_t i = 0; i < size; ++i) to[i] += sums[block + static_cast<size_t>(which * size + i)];
  total.store();
}

}  // namespace

template <class T>
void rms_norm(T* y, wide_t<T>* rstd, const T* x, const T* w, int64_t rows, int64_t size, double eps) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    rms_rows(y + begin * size, rstd + begin, x + begin * size, w, end - begin, size,
             static_cast<wide_t<T>>(eps));
  });
}

template <class T>
void rms_norm_again(T* y, const wide_t<T>* rstd, const T* x, const T* w, int64_t rows, int64_t size) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    rms_again_rows(y + begin * size, rstd + begin, x + begin * size, w, end - begin, size);
  });
}

template <class T, class G>
void rms_norm_backward(T* dx, G* dw, bool accumulate_dw, const T* dy, const T* x, const wide_t<T>* rstd,
                       const T* w, int64_t rows, int64_t size) {
  const auto sums = block_sums<wide_t<T>>(rows, size, 1, [=](wide_t<T>* block, int64_t row, int64_t count) {
    const int64_t at = row * size;
    rms_backward_rows(dx + at, block, dy + at, x + at, rstd + row, w, count, size);
  });
  add_blocks(dw, accumulate_dw, sums, size, 1, 0);
}

template <class T>
void layer_norm(T* y, wide_t<T>* mean, wide_t<T>* rstd, const T* x, const T* w, const T* b, int64_t rows,
                int64_t size, double eps) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    moments_rows(mean + begin, rstd + begin, x + begin * size, end - begin, size,
                 static_cast<wide_t<T>>(eps));
    centered_rows(y + begin * size, mean + begin, rstd + begin, x + begin * size, w, b, end - begin, size);
  });
}

template <class T>
void layer_norm_again(T* y, const wide_t<T>* mean, const wide_t<T>* rstd, const T* x, const T* w, const T* b,
                      int64_t rows, int64_t size) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    centered_rows(y + begin * size, mean + begin, rstd + begin, x + begin * size, w, b, end - begin, size);
  });
}

template <class T, class G>
void layer_norm_backward(T* dx, G* dw, G* db, bool accumulate_dw, bool accumulate_db, const T* dy, const T* x,
                         const wide_t<T>* mean, const wide_t<T>* rstd, const T* w, int64_t rows,
                         int64_t size) {
  const auto sums = block_sums<wide_t<T>>(rows, size, 2, [=](wide_t<T>* block, int64_t row, int64_t count) {
    const int64_t at = row * size;
    layer_backward_rows(dx + at, block, block + size, dy + at, x + at, mean + row, rstd + row, w, count,
                        size);
  });
  add_blocks(dw, accumulate_dw, sums, size, 2, 0);
  add_blocks(db, accumulate_db, sums, size, 2, 1);
}

MUSTER_INSTANTIATE(rms_norm);
MUSTER_INSTANTIATE(rms_norm_again);
MUSTER_INSTANTIATE_WITH_GRADIENT(rms_norm_backward);
MUSTER_INSTANTIATE(layer_norm);
MUSTER_INSTANTIATE(layer_norm_again);
MUSTER_INSTANTIATE_WITH_GRADIENT(layer_norm_backward);

}  // namespace muster::nn::kernels
