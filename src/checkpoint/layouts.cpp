#include "checkpoint/layouts.h"

namespace muster::checkpoint {
namespace {

// Rows as [a, b, c, rest], with b and c swapped.
at::Tensor swap_within_heads(const at::Tensor& rows, int64_t head_dim, int64_t b, int64_t c) {
  return rows.reshape({rows.size(0) / head_dim, b, c, -1}).transpose(1, 2).reshape(rows.sizes());
}

}  // namespace

at::Tensor pairwise_to_half_split(const at::Tensor& rows, int64_t head_dim) {
  return swap_within_heads(rows, head_dim, head_dim / 2, 2);
}

at::Tensor half_split_to_pairwise(const at::Tensor& rows, int64_t head_dim) {
  return swap_within_heads(rows, head_dim, 2, head_dim / 2);
}

at::Tensor fuse_qkv(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const spec::ModelSpec& model) {
  const int64_t groups = model.num_key_value_heads;
  const at::Tensor fused =
      at::cat({q.reshape({groups, model.q_size() / groups, -1}), k.reshape({groups, model.head_dim, -1}),
               v.reshape({groups, model.head_dim, -1})},
              1);
  std::vector<int64_t> shape = q.sizes().vec();
  shape[0] = model.q_size() + 2 * model.kv_size();
  return fused.reshape(shape);
}

std::array<at::Tensor, 3> split_qkv(const at::Tensor& fused, const spec::ModelSpec& model) {
  const int64_t groups = model.num_key_value_heads, queries = model.q_size() / groups;
  const at::Tensor grouped = fused.reshape({groups, queries + 2 * model.head_dim, -1});
  std::vector<int64_t> shape = fused.sizes().vec();
  const auto part = [&](int64_t start, int64_t rows) {
    shape[0] = groups * rows;
    return grouped.narrow(1, start, rows).reshape(shape);
  };
  return {part(0, queries), part(queries, model.head_dim), part(queries + model.head_dim, model.head_dim)};
}

}  // namespace muster::checkpoint
