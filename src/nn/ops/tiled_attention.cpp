#include "nn/ops/tiled_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "nn/kernels/kernels.h"
#include "nn/ops/dispatch.h"

namespace muster::nn {
namespace {

constexpr int64_t kTileRows =
    64;  // queries of a tile: more do work behind the diagonal, fewer make products too small

constexpr int64_t kLineElements = 16;

// One group: a key and a value head and the query heads that share them, of one sequence. All are [S, D]
// views.
class Group {
 public:
  Group(const at::Tensor& qkv_NE, int64_t length, const HeadShape& shape, int64_t which)
      : heads_(shape.query_heads / shape.key_heads),
        first_row_(which / shape.key_heads * length),
        length_(length),
        shape_(shape),
        key_head_(which % shape.key_heads),
        rows_SE_(qkv_NE.narrow(0, first_row_, length)) {}

  int64_t heads() const { return heads_; }
  at::Tensor q(int64_t head) const { return part(rows_SE_, query_head(head) * shape_.head_dim); }
  at::Tensor k() const { return part(rows_SE_, shape_.q_size() + key_head_ * shape_.head_dim); }
  at::Tensor v() const {
    return part(rows_SE_, shape_.q_size() + shape_.kv_size() + key_head_ * shape_.head_dim);
  }
  // This head's part of rows of query heads alone.
  at::Tensor of_queries(const at::Tensor& rows_NQ, int64_t head) const {
    return part(rows_NQ.narrow(0, first_row_, length_), query_head(head) * shape_.head_dim);
  }
  at::Tensor statistics(const at::Tensor& lse_BQS, int64_t head) const {
    return lse_BQS[first_row_ / length_][query_head(head)];
  }

 private:
  int64_t query_head(int64_t head) const { return key_head_ * heads_ + head; }
  at::Tensor part(const at::Tensor& rows, int64_t first) const {
    return rows.narrow(1, first, shape_.head_dim);
  }
  int64_t heads_, first_row_, length_;
  HeadShape shape_;
  int64_t key_head_;
  at::Tensor rows_SE_;
};

// The queries [first, first + rows) and the keys [0, keys) that they see.
struct Tile {
  int64_t first, rows, keys;
};
Tile tile_at(int64_t first, int64_t length) {
  const int64_t rows = std::min(kTileRows, length - first);
  return {first, rows, first + rows};
}
at::Tensor queries(const at::Tensor& x_SD, const Tile& tile) {
  return x_SD.narrow(0, tile.first, tile.rows);
}
at::Tensor keys(const at::Tensor& x_SD, const Tile& tile) {
  return x_SD.narrow(0, 0, tile.keys);
}

// Calls body(group, scratch of this thread) for each group, groups spread over the threads.
template <class Body>
void over_groups(const at::Tensor& qkv_NE, int64_t length, const HeadShape& shape, int64_t scratch_elements,
                 const Body& body) {
  const int64_t groups = qkv_NE.size(0) / length * shape.key_heads;
  const int64_t threads = std::min<int64_t>(groups, at::get_num_threads());
  // Every thread's piece starts on a cache line: a matrix product may add in another order elsewhere.
  const int64_t piece = (scratch_elements + kLineElements - 1) / kLineElements * kLineElements;
  const at::Tensor scratch = at::empty({threads, piece}, qkv_NE.options());
  at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    const device::CategoryGuard guard(device::Category::scratch);
    for (int64_t thread = begin; thread < end; ++thread)
      for (int64_t which = thread; which < groups; which += threads)
        body(Group(qkv_NE, length, shape, which), scratch[thread]);
  });
}

// The first rows * columns elements of a piece of scratch.
at::Tensor matrix(const at::Tensor& scratch, int64_t offset, int64_t rows, int64_t columns) {
  return scratch.narrow(0, offset, rows * columns).view({rows, columns});
}

double scale_of(const HeadShape& shape) {
  return 1 / std::sqrt(static_cast<double>(shape.head_dim));
}

void head_forward(const Group& group, int64_t head, const AttentionOutput& result, const at::Tensor& scratch,
                  int64_t length, double scale) {
  const at::Tensor q = group.q(head), k = group.k(), v = group.v(),
                   out = group.of_queries(result.out_NQ, head);
  const at::Tensor lse_S = group.statistics(result.lse_BQS, head);
  for (int64_t first = 0; first < length; first += kTileRows) {
    const Tile tile = tile_at(first, length);
    at::Tensor scores = matrix(scratch, 0, tile.rows, tile.keys), out_tile = queries(out, tile);
    at::mm_out(scores, queries(q, tile), keys(k, tile).t());
    with_type(scores, [&](auto zero) {
      using T = decltype(zero);
      kernels::causal_softmax(data<T>(scores), data<T>(lse_S) + first, tile.rows, tile.keys, first, scale);
    });
    at::mm_out(out_tile, scores, keys(v, tile));
  }
}

// sum = or += a^T b
void add_product(at::Tensor sum, bool overwrite, const at::Tensor& a, const at::Tensor& b) {
  if (overwrite)
    at::mm_out(sum, a.t(), b);
  else
    sum.addmm_(a.t(), b);
}

// Adds a head's share to dk and dv of its group, and leaves dq where q was. The last tile comes first: it
// alone sees every key, so that the group's first head overwrites.
void head_backward(const Group& group, int64_t head, const AttentionOutput& saved, const at::Tensor& dout_NQ,
                   const at::Tensor& scratch, const at::Tensor& dk, const at::Tensor& dv, double scale) {
  const at::Tensor q = group.q(head), k = group.k(), v = group.v();
  const at::Tensor out = group.of_queries(saved.out_NQ, head), dout = group.of_queries(dout_NQ, head);
  const at::Tensor lse_S = group.statistics(saved.lse_BQS, head);
  const int64_t length = q.size(0);
  for (int64_t first = (length - 1) / kTileRows * kTileRows; first >= 0; first -= kTileRows) {
    const Tile tile = tile_at(first, length);
    at::Tensor p = matrix(scratch, 0, tile.rows, tile.keys),
               ds = matrix(scratch, p.numel(), tile.rows, tile.keys);
    at::Tensor q_tile = queries(q, tile);
    const at::Tensor dout_tile = queries(dout, tile), out_tile = queries(out, tile);
    at::mm_out(p, q_tile, keys(k, tile).t());
    at::mm_out(ds, dout_tile, keys(v, tile).t());
    with_type(p, [&](auto zero) {
      using T = decltype(zero);
      kernels::causal_softmax_backward(data<T>(p), data<T>(ds), data<T>(lse_S) + first,
                                       out_tile.data_ptr<T>(), dout_tile.data_ptr<T>(), out.stride(0),
                                       q.size(1), tile.rows, tile.keys, first, scale);
    });
    const bool overwrite = head == 0 && tile.keys == length;
    add_product(keys(dv, tile), overwrite, p, dout_tile);
    add_product(keys(dk, tile), overwrite, ds, q_tile);
    at::mm_out(q_tile, ds, keys(k, tile));
  }
}

}  // namespace

void tiled_attention(const AttentionOutput& result, const at::Tensor& qkv_NE, int64_t length,
                     const HeadShape& shape) {
  over_groups(qkv_NE, length, shape, std::min(kTileRows, length) * length,
              [&](const Group& group, const at::Tensor& scratch) {
                for (int64_t head = 0; head < group.heads(); ++head)
                  head_forward(group, head, result, scratch, length, scale_of(shape));
              });
}

void tiled_attention_backward(at::Tensor qkv_NE, const AttentionOutput& saved, const at::Tensor& dout_NQ,
                              int64_t length, const HeadShape& shape) {
  const int64_t tiles = 2 * std::min(kTileRows, length) * length, head = length * shape.head_dim;
  over_groups(qkv_NE, length, shape, tiles + 2 * head, [&](const Group& group, const at::Tensor& scratch) {
    const at::Tensor dk = matrix(scratch, tiles, length, shape.head_dim);
    const at::Tensor dv = matrix(scratch, tiles + head, length, shape.head_dim);
    for (int64_t query = 0; query < group.heads(); ++query)
      head_backward(group, query, saved, dout_NQ, scratch, dk, dv, scale_of(shape));
    group.k().copy_(dk);
    group.v().copy_(dv);
  });
}

}  // namespace muster::nn
