#include "nn/ops/tiled_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "nn/kernels/kernels.h"
#include "nn/ops/dispatch.h"

namespace muster::nn {
namespace {

using spec::Block;
using spec::Blocks;

constexpr int64_t kTileRows =
    64;  // queries of a tile: more do work behind the diagonal, fewer make products too small

constexpr int64_t kLineElements = 16;

// One group: a key and a value head and the query heads that share them, of one sequence. All are [S, D]
// views.
class Group {
 public:
  Group(int64_t length, const HeadShape& shape, int64_t which)
      : shape_(shape),
        sequence_(which / shape.key_heads),
        key_head_(which % shape.key_heads),
        length_(length) {}

  int64_t sequence() const { return sequence_; }
  int64_t heads() const { return shape_.query_heads / shape_.key_heads; }
  int64_t head_dim() const { return shape_.head_dim; }
  // Of fused rows.
  at::Tensor q(const at::Tensor& qkv_NE, int64_t head) const { return of_queries(qkv_NE, head); }
  at::Tensor k(const at::Tensor& qkv_NE) const {
    return part(qkv_NE, shape_.q_size() + key_head_ * head_dim());
  }
  at::Tensor v(const at::Tensor& qkv_NE) const {
    return part(qkv_NE, shape_.q_size() + shape_.kv_size() + key_head_ * head_dim());
  }
  // Of rows of key and value heads alone.
  at::Tensor key(const at::Tensor& kv_NK) const { return part(kv_NK, key_head_ * head_dim()); }
  at::Tensor value(const at::Tensor& kv_NK) const {
    return part(kv_NK, shape_.kv_size() + key_head_ * head_dim());
  }
  // Of rows that begin with the query heads.
  at::Tensor of_queries(const at::Tensor& rows_NQ, int64_t head) const {
    return part(rows_NQ, query_head(head) * head_dim());
  }
  at::Tensor statistics(const at::Tensor& lse_BQS, int64_t head) const {
    return lse_BQS[sequence_][query_head(head)];
  }

 private:
  int64_t query_head(int64_t head) const { return key_head_ * heads() + head; }
  at::Tensor part(const at::Tensor& rows, int64_t first) const {
    return rows.narrow(0, sequence_ * length_, length_).narrow(1, first, shape_.head_dim);
  }
  HeadShape shape_;
  int64_t sequence_, key_head_, length_;
};

// Queries [first, first + rows) of a block and the keys [0, keys) that some of them see; of the block's keys
// the tile's first query sees `seen` before itself.
struct Tile {
  int64_t first, rows, keys, seen;
};
Tile tile_at(const Block& block, int64_t first) {
  const int64_t rows = std::min(kTileRows, block.queries - first);
  return block.causal ? Tile{first, rows, first + rows, first} : Tile{first, rows, block.keys, block.keys};
}
at::Tensor queries(const at::Tensor& x_SD, const Block& block, const Tile& tile) {
  return x_SD.narrow(0, block.first_query + tile.first, tile.rows);
}
at::Tensor keys(const at::Tensor& x_SD, const Block& block, const Tile& tile) {
  return x_SD.narrow(0, block.first_key, tile.keys);
}

// The largest tile of any block.
int64_t tile_elements(const Blocks& blocks) {
  int64_t most = 0;
  for (const Block& block : blocks) most = std::max(most, std::min(kTileRows, block.queries) * block.keys);
  return most;
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
        body(Group(length, shape, which), scratch[thread]);
  });
}

template <class Body>
void over_blocks(const Blocks& blocks, const Group& group, const Body& body) {
  for (const Block& block : blocks)
    if (block.sequence == group.sequence()) body(block);
}

// The first rows * columns elements of a piece of scratch.
at::Tensor matrix(const at::Tensor& scratch, int64_t offset, int64_t rows, int64_t columns) {
  return scratch.narrow(0, offset, rows * columns).view({rows, columns});
}

double scale_of(int64_t head_dim) {
  return 1 / std::sqrt(static_cast<double>(head_dim));
}

// The views that one head of a group works on.
struct Head {
  at::Tensor q, k, v, out, lse_S;
};

// The softmax of a tile's scores, in scratch; its statistics go to lse.
at::Tensor tile_softmax(const Head& head, const Block& block, const Tile& tile, const at::Tensor& scratch,
                        const at::Tensor& lse) {
  at::Tensor scores = matrix(scratch, 0, tile.rows, tile.keys);
  at::mm_out(scores, queries(head.q, block, tile), keys(head.k, block, tile).t());
  with_type(scores, [&](auto zero) {
    using T = decltype(zero);
    kernels::causal_softmax(data<T>(scores), data<T>(lse), tile.rows, tile.keys, tile.seen,
                            scale_of(head.q.size(1)));
  });
  return scores;
}

void head_forward(const Head& head, const Block& block, const at::Tensor& scratch) {
  for (int64_t first = 0; first < block.queries; first += kTileRows) {
    const Tile tile = tile_at(block, first);
    const at::Tensor p = tile_softmax(head, block, tile, scratch, queries(head.lse_S, block, tile));
    at::Tensor out_tile = queries(head.out, block, tile);
    at::mm_out(out_tile, p, keys(head.v, block, tile));
  }
}

// As head_forward, joined with what is there. `tile_size`: where the scores end in scratch.
void head_forward_to(const Head& head, const Block& block, const at::Tensor& scratch, int64_t tile_size) {
  const int64_t head_dim = head.q.size(1);
  for (int64_t first = 0; first < block.queries; first += kTileRows) {
    const Tile tile = tile_at(block, first);
    at::Tensor more = matrix(scratch, tile_size, tile.rows, head_dim);
    const at::Tensor more_lse = scratch.narrow(0, tile_size + kTileRows * head_dim, tile.rows);
    const at::Tensor p = tile_softmax(head, block, tile, scratch, more_lse);
    at::mm_out(more, p, keys(head.v, block, tile));
    const at::Tensor out = queries(head.out, block, tile), lse = queries(head.lse_S, block, tile);
    with_type(p, [&](auto zero) {
      using T = decltype(zero);
      kernels::merge_softmax(out.data_ptr<T>(), data<T>(lse), data<T>(more), data<T>(more_lse), out.stride(0),
                             head_dim, tile.rows);
    });
  }
}

// Softmax p and gradient ds of the scores of a tile, in scratch.
struct TileGradient {
  at::Tensor p, ds;
};
TileGradient tile_gradient(const Head& head, const at::Tensor& dout, const Block& block, const Tile& tile,
                           const at::Tensor& scratch) {
  TileGradient result{matrix(scratch, 0, tile.rows, tile.keys),
                      matrix(scratch, tile.rows * tile.keys, tile.rows, tile.keys)};
  const at::Tensor dout_tile = queries(dout, block, tile), out_tile = queries(head.out, block, tile);
  at::mm_out(result.p, queries(head.q, block, tile), keys(head.k, block, tile).t());
  at::mm_out(result.ds, dout_tile, keys(head.v, block, tile).t());
  const at::Tensor lse = queries(head.lse_S, block, tile);
  with_type(result.p, [&](auto zero) {
    using T = decltype(zero);
    kernels::causal_softmax_backward(
        data<T>(result.p), data<T>(result.ds), data<T>(lse), out_tile.data_ptr<T>(), dout_tile.data_ptr<T>(),
        out_tile.stride(0), head.q.size(1), tile.rows, tile.keys, tile.seen, scale_of(head.q.size(1)));
  });
  return result;
}

// sum = or += a^T b
void add_product(at::Tensor sum, bool overwrite, const at::Tensor& a, const at::Tensor& b) {
  if (overwrite)
    at::mm_out(sum, a.t(), b);
  else
    sum.addmm_(a.t(), b);
}

// Adds a head's share to dk and dv of its group, and leaves dq where q was. The last tile comes first: it
// alone sees every key of its block, so that the group's first head overwrites.
void head_backward(Head& head, bool is_first, const at::Tensor& dout, const Block& block,
                   const at::Tensor& scratch, const at::Tensor& dk, const at::Tensor& dv) {
  for (int64_t first = (block.queries - 1) / kTileRows * kTileRows; first >= 0; first -= kTileRows) {
    const Tile tile = tile_at(block, first);
    const TileGradient gradient = tile_gradient(head, dout, block, tile, scratch);
    at::Tensor q_tile = queries(head.q, block, tile);
    const bool overwrite = is_first && tile.keys == block.keys;
    add_product(keys(dv, block, tile), overwrite, gradient.p, queries(dout, block, tile));
    add_product(keys(dk, block, tile), overwrite, gradient.ds, q_tile);
    at::mm_out(q_tile, gradient.ds, keys(head.k, block, tile));
  }
}

// Adds to dq, dk and dv.
void head_backward_to(const Head& head, const at::Tensor& dout, const Block& block, const at::Tensor& scratch,
                      const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv) {
  for (int64_t first = 0; first < block.queries; first += kTileRows) {
    const Tile tile = tile_at(block, first);
    const TileGradient gradient = tile_gradient(head, dout, block, tile, scratch);
    add_product(keys(dv, block, tile), false, gradient.p, queries(dout, block, tile));
    add_product(keys(dk, block, tile), false, gradient.ds, queries(head.q, block, tile));
    queries(dq, block, tile).addmm_(gradient.ds, keys(head.k, block, tile));
  }
}

}  // namespace

void tiled_attention(const AttentionOutput& result, const at::Tensor& qkv_NE, int64_t length,
                     const HeadShape& shape, const Blocks& blocks) {
  over_groups(qkv_NE, length, shape, tile_elements(blocks),
              [&](const Group& group, const at::Tensor& scratch) {
                const at::Tensor k = group.k(qkv_NE), v = group.v(qkv_NE);
                for (int64_t at = 0; at < group.heads(); ++at) {
                  const Head head{group.q(qkv_NE, at), k, v, group.of_queries(result.out_NQ, at),
                                  group.statistics(result.lse_BQS, at)};
                  over_blocks(blocks, group, [&](const Block& block) { head_forward(head, block, scratch); });
                }
              });
}

void tiled_attention_backward(at::Tensor qkv_NE, const AttentionOutput& saved, const at::Tensor& dout_NQ,
                              int64_t length, const HeadShape& shape, const Blocks& blocks) {
  const int64_t tiles = 2 * tile_elements(blocks), size = length * shape.head_dim;
  over_groups(qkv_NE, length, shape, tiles + 2 * size, [&](const Group& group, const at::Tensor& scratch) {
    const at::Tensor dk = matrix(scratch, tiles, length, shape.head_dim);
    const at::Tensor dv = matrix(scratch, tiles + size, length, shape.head_dim);
    at::Tensor k = group.k(qkv_NE), v = group.v(qkv_NE);
    for (int64_t at = 0; at < group.heads(); ++at) {
      Head head{group.q(qkv_NE, at), k, v, group.of_queries(saved.out_NQ, at),
                group.statistics(saved.lse_BQS, at)};
      const at::Tensor dout = group.of_queries(dout_NQ, at);
      over_blocks(blocks, group,
                  [&](const Block& block) { head_backward(head, at == 0, dout, block, scratch, dk, dv); });
    }
    k.copy_(dk);
    v.copy_(dv);
  });
}

void tiled_attention_to(const AttentionOutput& result, const at::Tensor& qkv_NE, const at::Tensor& kv_NK,
                        int64_t length, const HeadShape& shape, const Blocks& blocks) {
  const int64_t tile = tile_elements(blocks);
  over_groups(qkv_NE, length, shape, tile + kTileRows * (shape.head_dim + 1),
              [&](const Group& group, const at::Tensor& scratch) {
                const at::Tensor k = group.key(kv_NK), v = group.value(kv_NK);
                for (int64_t at = 0; at < group.heads(); ++at) {
                  const Head head{group.q(qkv_NE, at), k, v, group.of_queries(result.out_NQ, at),
                                  group.statistics(result.lse_BQS, at)};
                  over_blocks(blocks, group,
                              [&](const Block& block) { head_forward_to(head, block, scratch, tile); });
                }
              });
}

void tiled_attention_to_backward(at::Tensor dq_NQ, at::Tensor dkv_NK, const at::Tensor& qkv_NE,
                                 const at::Tensor& kv_NK, const AttentionOutput& saved,
                                 const at::Tensor& dout_NQ, int64_t length, const HeadShape& shape,
                                 const Blocks& blocks) {
  over_groups(
      qkv_NE, length, shape, 2 * tile_elements(blocks), [&](const Group& group, const at::Tensor& scratch) {
        const at::Tensor dk = group.key(dkv_NK), dv = group.value(dkv_NK);
        for (int64_t at = 0; at < group.heads(); ++at) {
          const Head head{group.q(qkv_NE, at), group.key(kv_NK), group.value(kv_NK),
                          group.of_queries(saved.out_NQ, at), group.statistics(saved.lse_BQS, at)};
          const at::Tensor dout = group.of_queries(dout_NQ, at), dq = group.of_queries(dq_NQ, at);
          over_blocks(blocks, group,
                      [&](const Block& block) { head_backward_to(head, dout, block, scratch, dq, dk, dv); });
        }
      });
}

}  // namespace muster::nn
