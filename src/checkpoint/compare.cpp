#include "checkpoint/compare.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "checkpoint/tensor_io.h"

namespace muster::checkpoint {
namespace {

// Elements [first, last), flat.
at::Tensor window(const TensorOf& of, int64_t first, int64_t last) {
  const at::Tensor held = at::empty({last - first}, to_scalar_type(of.tensor.dtype));
  of.set.read(of.tensor, {held, spec::Piece(of.tensor.shape).narrow(first, last)});
  return held;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

at::Tensor bits_of(const at::Tensor& values) {
  constexpr at::ScalarType types[] = {at::kByte, at::kShort, at::kInt, at::kLong};
  for (at::ScalarType type : types)
    if (static_cast<int64_t>(c10::elementSize(type)) == values.element_size()) return values.view(type);
  throw Bug("an element of an odd width");
}

// Which elements differ.
at::Tensor differing(const at::Tensor& a, const at::Tensor& b, const at::Tensor& a_value,
                     const at::Tensor& b_value) {
  if (a.scalar_type() == b.scalar_type()) return bits_of(a).ne(bits_of(b));
  return a_value.ne(b_value).logical_and(a_value.isnan().logical_and(b_value.isnan()).logical_not());
}

std::vector<int64_t> index_in(const std::vector<int64_t>& shape, int64_t element) {
  std::vector<int64_t> index(shape.size());
  for (size_t dim = shape.size(); dim-- > 0; element /= shape[dim]) index[dim] = element % shape[dim];
  return index;
}

// Takes in a window that begins at element `first` of tensors of `shape`.
void add(TensorDifference& sum, const at::Tensor& a, const at::Tensor& b, int64_t first,
         const std::vector<int64_t>& shape) {
  const at::Tensor a_value = a.to(at::kDouble), b_value = b.to(at::kDouble);
  const at::Tensor where = differing(a, b, a_value, b_value).nonzero().view({-1});
  if (where.numel() == 0) return;
  if (sum.differing == 0) sum.first = index_in(shape, first + where[0].item<int64_t>());
  sum.differing += where.numel();
  const at::Tensor x = a_value.index_select(0, where), y = b_value.index_select(0, where);
  const double none = std::numeric_limits<double>::infinity();
  const at::Tensor alike =
      x.eq(y).logical_or(x.isnan().logical_and(y.isnan()));  // -0 and 0; two kinds of NaN
  const at::Tensor absolute = (x - y).abs().masked_fill(alike, 0).nan_to_num(none, none, none);
  const at::Tensor larger = at::maximum(x.abs(), y.abs());
  const at::Tensor relative = (absolute / larger).masked_fill(alike, 0).nan_to_num(none, none, none);
  sum.max_absolute = std::max(sum.max_absolute, absolute.max().item<double>());
  sum.max_relative = std::max(sum.max_relative, relative.max().item<double>());
}

// Calls body(a, b, first) with windows of both; it says whether to go on.
template <class Body>
void for_windows(const TensorOf& a, const TensorOf& b, const Body& body) {
  const int64_t width = std::max(bytes_of(a.tensor.dtype), bytes_of(b.tensor.dtype));
  const int64_t all = a.tensor.elements(), step = kStagingBytes / width;
  for (int64_t first = 0; first < all; first += step) {
    const int64_t last = std::min(all, first + step);
    if (!body(window(a, first, last), window(b, first, last), first)) return;
  }
}

}  // namespace

TensorDifference compare(const TensorOf& a, const TensorOf& b) {
  MUSTER_CHECK(a.tensor.shape == b.tensor.shape, "{}: two shapes", a.tensor.name);
  TensorDifference difference;
  for_windows(a, b, [&](const at::Tensor& x, const at::Tensor& y, int64_t first) {
    if (!same_bits(x, y)) add(difference, x, y, first, a.tensor.shape);
    return true;
  });
  return difference;
}

bool are_same(const TensorOf& a, const TensorOf& b) {
  if (a.tensor.dtype != b.tensor.dtype || a.tensor.shape != b.tensor.shape) return false;
  bool same = true;
  for_windows(a, b,
              [&](const at::Tensor& x, const at::Tensor& y, int64_t) { return same = same_bits(x, y); });
  return same;
}

}  // namespace muster::checkpoint
