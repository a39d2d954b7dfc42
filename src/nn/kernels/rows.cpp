#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "nn/kernels/kernels.h"
#include "nn/kernels/parallel.h"
#include "nn/kernels/vector_math.h"
#include "nn/kernels/wide.h"

namespace muster::nn::kernels {
namespace {

template <class S, class T>
MUSTER_CLONES void add_row(S* __restrict out, const T* __restrict x, int64_t size) {
  for (int64_t i = 0; i < size; ++i) out[i] = rounded<S>(wide(out[i]) + wide(x[i]));
}

template <class T>
MUSTER_CLONES double squares_of(const T* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(wide(x[i])) * static_cast<double>(wide(x[i]));
  return sum;
}

// Rows of the same id side by side, in their order: what they add up to is rounded once.
std::vector<int32_t> rows_by_id(const int32_t* ids, int64_t rows) {
  std::vector<int32_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [=](int32_t a, int32_t b) { return ids[a] < ids[b]; });
  return order;
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
        std::fill(to, to + size, T{});
    }
  });
}

template <class T, class G>
void embed_backward(G* dtable, const T* dy, const int32_t* ids, int64_t rows, int64_t size, int64_t first_id,
                    int64_t ids_here) {
  const std::vector<int32_t> by_id = rows_by_id(ids, rows);
  for (auto row = by_id.begin(); row != by_id.end();) {
    const int32_t which = ids[*row];
    const auto end = std::find_if(row, by_id.end(), [&](int32_t other) { return ids[other] != which; });
    const int64_t id = which - first_id;
    if (id >= 0 && id < ids_here) {
      RoundedSums<G> sum(dtable + id * size, size, /*accumulate=*/true);
      for (auto at = row; at != end; ++at) add_row(sum.data(), dy + *at * size, size);
      sum.store();
    }
    row = end;
  }
}

template <class T, class G>
void sum_rows(G* out, bool accumulate, const T* x, int64_t rows, int64_t size, int64_t groups) {
  RoundedSums<G> sums(out, groups * size, accumulate);
  for (int64_t row = 0; row < rows; ++row) add_row(sums.data() + row % groups * size, x + row * size, size);
  sums.store();
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
MUSTER_INSTANTIATE_WITH_GRADIENT(embed_backward);
MUSTER_INSTANTIATE_WITH_GRADIENT(sum_rows);
MUSTER_INSTANTIATE(add_bias);
MUSTER_INSTANTIATE(sum_of_squares);

}  // namespace muster::nn::kernels
