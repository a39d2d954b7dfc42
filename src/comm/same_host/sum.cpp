#include "comm/same_host/sum.h"

#include <ATen/Dispatch.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace muster::comm {
namespace {

// Two chunks of doubles stay in a core's own cache.
constexpr int64_t kChunkElements = 32 * 1024;

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, at::BFloat16> || std::is_same_v<T, at::Half>, float, T>;

// std::max and std::min of a NaN depend on its side; here it stays, as at::maximum has it.
template <typename W>
W larger(W a, W b) {
  return a > b || a != a ? a : b;
}
template <typename W>
W smaller(W a, W b) {
  return a < b || a != a ? a : b;
}

template <typename T>
void add_to(Wide<T>* sum, const T* values, int64_t count, Reduce op) {
  using W = Wide<T>;
  switch (op) {
    case Reduce::sum:
      for (int64_t at = 0; at < count; ++at) sum[at] += static_cast<W>(values[at]);
      return;
    case Reduce::maximum:
      for (int64_t at = 0; at < count; ++at) sum[at] = larger(sum[at], static_cast<W>(values[at]));
      return;
    case Reduce::minimum:
      for (int64_t at = 0; at < count; ++at) sum[at] = smaller(sum[at], static_cast<W>(values[at]));
  }
}

}  // namespace

Sum::Sum(at::Tensor part, Reduce op)
    : part_(std::move(part)),
      op_(op),
      chunk_(std::min(kChunkElements, part_.numel())),
      room_(static_cast<size_t>(chunk_) * part_.element_size()),
      sum_(static_cast<size_t>(chunk_) * std::max<size_t>(part_.element_size(), sizeof(float))) {}

void Sum::add(int64_t begin, int64_t count, int64_t rank, const void* values) {
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, part_.scalar_type(), "sum", [&] {
    const auto* row =
        values ? static_cast<const scalar_t*>(values) : part_.const_data_ptr<scalar_t>() + begin;
    auto* sum = reinterpret_cast<Wide<scalar_t>*>(sum_.data());
    if (rank == 0)
      std::copy(row, row + count, sum);
    else
      add_to<scalar_t>(sum, row, count, op_);
  });
}

void Sum::store(int64_t begin, int64_t count) {
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, part_.scalar_type(), "sum", [&] {
    const auto* sum = reinterpret_cast<const Wide<scalar_t>*>(sum_.data());
    std::copy(sum, sum + count, part_.data_ptr<scalar_t>() + begin);
  });
}

}  // namespace muster::comm
