#include <cstring>
#include <numeric>
#include <vector>

#include "nn/kernels/kernels.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/vector_math.h"

namespace muster::nn::kernels {
namespace {

template <class T>
MUSTER_CLONES void add_row(T* __restrict out, const T* __restrict x, int64_t size) {
  for (int64_t i = 0; i < size; ++i) out[i] += x[i];
}

template <class T>
MUSTER_CLONES double squares_of(const T* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

constexpr int64_t kSquareBlock = 65536;  // elements summed before they join the others

}  // namespace

template <class T>
void embed(T* out, const T* table, const int32_t* ids, int64_t rows, int64_t size, int64_t first_id,
           int64_t ids_here) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      T* to = out + row * size;
      const int64_t id = ids[row] - first_id;
      if (id >= 0 && id < ids_here)
        std::memcpy(to, table + id * size, static_cast<size_t>(size) * sizeof(T));
      else
        std::fill(to, to + size, T(0));
    }
  });
}

template <class T>
void embed_backward(T* dtable, const T* dy, const int32_t* ids, int64_t rows, int64_t size, int64_t first_id,
                    int64_t ids_here) {
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t id = ids[row] - first_id;
    if (id >= 0 && id < ids_here) add_row(dtable + id * size, dy + row * size, size);
  }
}

template <class T>
void sum_rows(T* out, bool accumulate, const T* x, int64_t rows, int64_t size, int64_t groups) {
  if (!accumulate) std::fill(out, out + groups * size, T(0));
  for (int64_t row = 0; row < rows; ++row) add_row(out + row % groups * size, x + row * size, size);
}

template <class T>
void add_bias(T* x, const T* bias, int64_t rows, int64_t size) {
  over_rows(rows, size, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) add_row(x + row * size, bias, size);
  });
}

template <class T>
double sum_of_squares(const T* x, int64_t count) {
  const int64_t blocks = (count + kSquareBlock - 1) / kSquareBlock;
  std::vector<double> sums(static_cast<size_t>(blocks));
  over_rows(blocks, kSquareBlock, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      sums[static_cast<size_t>(block)] =
          squares_of(x + block * kSquareBlock, std::min(kSquareBlock, count - block * kSquareBlock));
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

MUSTER_INSTANTIATE(embed);
MUSTER_INSTANTIATE(embed_backward);
MUSTER_INSTANTIATE(sum_rows);
MUSTER_INSTANTIATE(add_bias);
MUSTER_INSTANTIATE(sum_of_squares);

}  // namespace muster::nn::kernels
