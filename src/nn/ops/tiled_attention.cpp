#include "nn/ops/tiled_attention.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "nn/kernels/kernels.h"
#include "nn/ops/dispatch.h"
#include "nn/wide.h"

namespace muster::nn {
namespace {

using spec::Block;
using spec::Blocks;

constexpr int64_t kTileRows =
    64;  // queries of a tile: more do work behind the diagonal, fewer make products too small

constexpr int64_t kLineElements = 16;

int64_t whole_lines(int64_t elements) {
  return (elements + kLineElements - 1) / kLineElements * kLineElements;
}

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

// The first rows * columns elements of a piece of scratch.
at::Tensor matrix(const at::Tensor& scratch, int64_t offset, int64_t rows, int64_t columns) {
  return scratch.narrow(0, offset, rows * columns).view({rows, columns});
}

// bfloat16 is read into fp32 copies and written out of them: one behind the other in scratch, as long as the
// function lives that takes its copies by value. Other formats are read and written where they stand.
class Copies {
 public:
  // `first`: where they begin in scratch.
  Copies(const at::Tensor& rows, at::Tensor scratch, int64_t first)
      : is_needed_(is_narrow(rows)), scratch_(std::move(scratch)), next_(whole_lines(first)) {}
  // Elements that matrices of these numbers of rows take behind `first` others.
  static int64_t end(const at::Tensor& rows, int64_t first, int64_t head_dim,
                     std::initializer_list<int64_t> taken) {
    if (!is_narrow(rows)) return first;
    first = whole_lines(first);
    for (const int64_t each : taken) first += whole_lines(each * head_dim);
    return first;
  }

  // What is to be written, by store().
  at::Tensor room(const at::Tensor& x) {
    if (!is_needed_) return x;
    const at::Tensor copy = matrix(scratch_, next_, x.size(0), x.size(1));
    next_ += whole_lines(copy.numel());
    return copy;
  }
  at::Tensor load(const at::Tensor& x) { return is_needed_ ? room(x).copy_(x) : x; }
  void store(at::Tensor x, const at::Tensor& copy) const {
    if (is_needed_) x.copy_(copy);
  }

 private:
  bool is_needed_;
  at::Tensor scratch_;
  int64_t next_;
};

// Calls body(group, scratch of this thread) for each group, groups spread over the threads.
template <class Body>
void over_groups(const at::Tensor& qkv_NE, int64_t length, const HeadShape& shape, int64_t scratch_elements,
                 const Body& body) {
  const int64_t groups = qkv_NE.size(0) / length * shape.key_heads;
  const int64_t threads = std::min<int64_t>(groups, at::get_num_threads());
  // Every thread's piece starts on a cache line: a matrix product may add in another order elsewhere.
  const at::Tensor scratch = at::empty({threads, whole_lines(scratch_elements)},
                                       qkv_NE.options().dtype(wide_type(qkv_NE.scalar_type())));
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

double scale_of(int64_t head_dim) {
  return 1 / std::sqrt(static_cast<double>(head_dim));
}

// The views that one head of a group works on; k and v as products take them, q and out as they are stored.
struct Head {
  at::Tensor q, k, v, out, lse_S;
};

// The softmax of a tile's scores, in scratch; its statistics go to lse.
at::Tensor tile_softmax(const Head& head, const Block& block, const Tile& tile, const at::Tensor& scratch,
                        const at::Tensor& lse, Copies copies) {
  at::Tensor scores = matrix(scratch, 0, tile.rows, tile.keys);
  at::mm_out(scores, copies.load(queries(head.q, block, tile)), keys(head.k, block, tile).t());
  with_type(head.q, [&](auto zero) {
    using W = kernels::wide_t<decltype(zero)>;
    kernels::causal_softmax(data<W>(scores), data<W>(lse), tile.rows, tile.keys, tile.seen,
                            scale_of(head.q.size(1)));
  });
  return scores;
}

void head_forward(const Head& head, const Block& block, const at::Tensor& scratch, const Copies& copies) {
  for (int64_t first = 0; first < block.queries; first += kTileRows) {
    const Tile tile = tile_at(block, first);
    const at::Tensor p = tile_softmax(head, block, tile, scratch, queries(head.lse_S, block, tile), copies);
    const at::Tensor out_tile = queries(head.out, block, tile);
    at::Tensor written = Copies(copies).room(out_tile);
    at::mm_out(written, p, keys(head.v, block, tile));
    copies.store(out_tile, written);
  }
}

// As head_forward, joined with what is there. `tile_size`: where the scores end in scratch.
void head_forward_to(const Head& head, const Block& block, const at::Tensor& scratch, int64_t tile_size,
                     const Copies& copies) {
  const int64_t head_dim = head.q.size(1);
  for (int64_t first = 0; first < block.queries; first += kTileRows) {
    const Tile tile = tile_at(block, first);
    at::Tensor more = matrix(scratch, tile_size, tile.rows, head_dim);
    const at::Tensor more_lse = scratch.narrow(0, tile_size + kTileRows * head_dim, tile.rows);
    const at::Tensor p = tile_softmax(head, block, tile, scratch, more_lse, copies);
    at::mm_out(more, p, keys(head.v, block, tile));
    const at::Tensor out = queries(head.out, block, tile), lse = queries(head.lse_S, block, tile);
    with_type(out, [&](auto zero) {
      using T = decltype(zero);
      using W = kernels::wide_t<T>;
      kernels::merge_softmax(out.data_ptr<T>(), data<W>(lse), data<W>(more), data<W>(more_lse), out.stride(0),
                             head_dim, tile.rows);
    });
  }
}

// Softmax p and gradient ds of the scores of a tile, in scratch; q and dout of the tile as products take
// them.
struct TileGradient {
  at::Tensor p, ds, q, dout;
};
TileGradient tile_gradient(const Head& head, const at::Tensor& dout, const Block& block, const Tile& tile,
                           const at::Tensor& scratch, Copies copies) {
  const at::Tensor dout_tile = queries(dout, block, tile), out_tile = queries(head.out, block, tile);
  TileGradient result{matrix(scratch, 0, tile.rows, tile.keys),
                      matrix(scratch, tile.rows * tile.keys, tile.rows, tile.keys),
                      copies.load(queries(head.q, block, tile)), copies.load(dout_tile)};
  at::mm_out(result.p, result.q, keys(head.k, block, tile).t());
  at::mm_out(result.ds, result.dout, keys(head.v, block, tile).t());
  const at::Tensor lse = queries(head.lse_S, block, tile);
  with_type(head.q, [&](auto zero) {
    using T = decltype(zero);
    using W = kernels::wide_t<T>;
    kernels::causal_softmax_backward(
        data<W>(result.p), data<W>(result.ds), data<W>(lse), out_tile.data_ptr<T>(), dout_tile.data_ptr<T>(),
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
                   const at::Tensor& scratch, const Copies& copies, const at::Tensor& dk,
                   const at::Tensor& dv) {
  for (int64_t first = (block.queries - 1) / kTileRows * kTileRows; first >= 0; first -= kTileRows) {
    const Tile tile = tile_at(block, first);
    TileGradient gradient = tile_gradient(head, dout, block, tile, scratch, copies);
    const bool overwrite = is_first && tile.keys == block.keys;
    add_product(keys(dv, block, tile), overwrite, gradient.p, gradient.dout);
    add_product(keys(dk, block, tile), overwrite, gradient.ds, gradient.q);
    at::mm_out(gradient.q, gradient.ds, keys(head.k, block, tile));
    copies.store(queries(head.q, block, tile), gradient.q);
  }
}

// Adds to dq, dk and dv.
void head_backward_to(const Head& head, const at::Tensor& dout, const Block& block, const at::Tensor& scratch,
                      const Copies& copies, const at::Tensor& dq, const at::Tensor& dk,
                      const at::Tensor& dv) {
  for (int64_t first = 0; first < block.queries; first += kTileRows) {
    const Tile tile = tile_at(block, first);
    const TileGradient gradient = tile_gradient(head, dout, block, tile, scratch, copies);
    add_product(keys(dv, block, tile), false, gradient.p, gradient.dout);
    add_product(keys(dk, block, tile), false, gradient.ds, gradient.q);
    queries(dq, block, tile).addmm_(gradient.ds, keys(head.k, block, tile));
  }
}

}  // namespace

void tiled_attention(const AttentionOutput& result, const at::Tensor& qkv_NE, int64_t length,
                     const HeadShape& shape, const Blocks& blocks) {
  const int64_t tile = tile_elements(blocks);
  // Copies of k and v, of a tile of q and then of out.
  const int64_t all = Copies::end(qkv_NE, tile, shape.head_dim, {length, length, kTileRows});
  over_groups(qkv_NE, length, shape, all, [&](const Group& group, const at::Tensor& scratch) {
    Copies copies(qkv_NE, scratch, tile);
    const at::Tensor k = copies.load(group.k(qkv_NE)), v = copies.load(group.v(qkv_NE));
    for (int64_t at = 0; at < group.heads(); ++at) {
      const Head head{group.q(qkv_NE, at), k, v, group.of_queries(result.out_NQ, at),
                      group.statistics(result.lse_BQS, at)};
      over_blocks(blocks, group, [&](const Block& block) { head_forward(head, block, scratch, copies); });
    }
  });
}

void tiled_attention_backward(at::Tensor qkv_NE, const AttentionOutput& saved, const at::Tensor& dout_NQ,
                              int64_t length, const HeadShape& shape, const Blocks& blocks) {
  const int64_t tiles = 2 * tile_elements(blocks), size = length * shape.head_dim, sums = tiles + 2 * size;
  // Copies of k and v, of a tile of q and of dout.
  const int64_t all = Copies::end(qkv_NE, sums, shape.head_dim, {length, length, kTileRows, kTileRows});
  over_groups(qkv_NE, length, shape, all, [&](const Group& group, const at::Tensor& scratch) {
    Copies copies(qkv_NE, scratch, sums);
    const at::Tensor dk = matrix(scratch, tiles, length, shape.head_dim);
    const at::Tensor dv = matrix(scratch, tiles + size, length, shape.head_dim);
    at::Tensor k = group.k(qkv_NE), v = group.v(qkv_NE);
    const at::Tensor read_k = copies.load(k), read_v = copies.load(v);
    for (int64_t at = 0; at < group.heads(); ++at) {
      Head head{group.q(qkv_NE, at), read_k, read_v, group.of_queries(saved.out_NQ, at),
                group.statistics(saved.lse_BQS, at)};
      const at::Tensor dout = group.of_queries(dout_NQ, at);
      over_blocks(blocks, group, [&](const Block& block) {
        head_backward(head, at == 0, dout, block, scratch, copies, dk, dv);
      });
    }
    k.copy_(dk);
    v.copy_(dv);
  });
}

void tiled_attention_to(const AttentionOutput& result, const at::Tensor& qkv_NE, const at::Tensor& kv_NK,
                        int64_t length, const HeadShape& shape, const Blocks& blocks) {
  const int64_t tile = tile_elements(blocks), joined = tile + kTileRows * (shape.head_dim + 1);
  // Copies of k and v, of a tile of q.
  const int64_t all = Copies::end(qkv_NE, joined, shape.head_dim, {length, length, kTileRows});
  over_groups(qkv_NE, length, shape, all, [&](const Group& group, const at::Tensor& scratch) {
    Copies copies(qkv_NE, scratch, joined);
    const at::Tensor k = copies.load(group.key(kv_NK)), v = copies.load(group.value(kv_NK));
    for (int64_t at = 0; at < group.heads(); ++at) {
      const Head head{group.q(qkv_NE, at), k, v, group.of_queries(result.out_NQ, at),
                      group.statistics(result.lse_BQS, at)};
      over_blocks(blocks, group,
                  [&](const Block& block) { head_forward_to(head, block, scratch, tile, copies); });
    }
  });
}

void tiled_attention_to_backward(at::Tensor dq_NQ, at::Tensor dkv_NK, const at::Tensor& qkv_NE,
                                 const at::Tensor& kv_NK, const AttentionOutput& saved,
                                 const at::Tensor& dout_NQ, int64_t length, const HeadShape& shape,
                                 const Blocks& blocks) {
  const int64_t tiles = 2 * tile_elements(blocks);
  // Copies of k, v, dk and dv, of a head's dq, of a tile of q and of dout.
  const int64_t all = Copies::end(qkv_NE, tiles, shape.head_dim,
                                  {length, length, length, length, length, kTileRows, kTileRows});
  over_groups(qkv_NE, length, shape, all, [&](const Group& group, const at::Tensor& scratch) {
    Copies copies(qkv_NE, scratch, tiles);
    const at::Tensor dk = group.key(dkv_NK), dv = group.value(dkv_NK);
    const at::Tensor k = copies.load(group.key(kv_NK)), v = copies.load(group.value(kv_NK));
    const at::Tensor sum_k = copies.load(dk), sum_v = copies.load(dv);
    for (int64_t at = 0; at < group.heads(); ++at) {
      const Head head{group.q(qkv_NE, at), k, v, group.of_queries(saved.out_NQ, at),
                      group.statistics(saved.lse_BQS, at)};
      const at::Tensor dout = group.of_queries(dout_NQ, at), dq = group.of_queries(dq_NQ, at);
      Copies of_head = copies;
      const at::Tensor sum_q = of_head.load(dq);
      over_blocks(blocks, group, [&](const Block& block) {
        head_backward_to(head, dout, block, scratch, of_head, sum_q, sum_k, sum_v);
      });
      of_head.store(dq, sum_q);
    }
    copies.store(dk, sum_k);
    copies.store(dv, sum_v);
  });
}

}  // namespace muster::nn
