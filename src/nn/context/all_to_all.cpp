#include "nn/context/all_to_all.h"

#include <algorithm>

namespace muster::nn {
namespace {

// Columns of fused rows that a rank takes: [from, from + size) come to stand at [to, to + size).
struct Columns {
  int64_t from, to, size;
  bool is_first;  // no rank before takes them too
};

std::vector<Columns> query_columns(const HeadShape& heads, int64_t rank, int64_t ranks) {
  const int64_t size = share_of(heads, ranks).q_size();
  return {{rank * size, 0, size, true}};
}

std::vector<Columns> all_columns(const HeadShape& heads, int64_t rank, int64_t ranks) {
  const HeadShape share = share_of(heads, ranks);
  std::vector<Columns> columns = query_columns(heads, rank, ranks);
  const int64_t head = rank * heads.key_heads / ranks, kv = share.kv_size();
  const bool is_first = rank == 0 || (rank - 1) * heads.key_heads / ranks != head;
  for (int64_t which : {0, 1})
    columns.push_back({heads.q_size() + which * heads.kv_size() + head * heads.head_dim,
                       share.q_size() + which * kv, kv, is_first || heads.key_heads >= ranks});
  return columns;
}

using ColumnsOf = std::vector<Columns> (*)(const HeadShape&, int64_t, int64_t);

class Swap {
 public:
  Swap(Executor& run, const ContextGroup& group, const Positions& positions, const HeadShape& heads)
      : run_(run), group_(group), positions_(positions), heads_(heads) {}

  // Rows of this rank's tokens [N, all heads] to whole sequences of this rank's heads [M, width].
  at::Tensor to_heads(const at::Tensor& rows, int64_t width, ColumnsOf columns_of, Category category) const {
    const int64_t ranks = group_.size(), rows_here = rows.size(0);
    const at::Tensor packed = run_.empty({ranks, rows_here, width}, Category::communication);
    run_.run("pack", {0, 2 * bytes_of(packed)}, [&] {
      for (int64_t rank = 0; rank < ranks; ++rank)
        for (const Columns& c : columns_of(heads_, rank, ranks))
          packed[rank].narrow(1, c.to, c.size).copy_(rows.narrow(1, c.from, c.size));
    });
    const bool in_order = positions_.sequences == 1;
    const at::Tensor arrived =
        run_.empty({ranks * rows_here, width}, in_order ? category : Category::communication);
    exchange(arrived, packed.view({ranks * rows_here, width}));
    if (in_order) return arrived;
    const at::Tensor whole = run_.empty({ranks * rows_here, width}, category);
    run_.run("order", {0, 2 * bytes_of(whole)},
             [&] { by_rank(whole).copy_(arrived.view(by_rank_shape(width))); });
    return whole;
  }

  // The way back: writes rows [N, all heads]; heads that several ranks had are summed.
  void to_tokens(at::Tensor rows, const at::Tensor& whole, ColumnsOf columns_of) const {
    const int64_t ranks = group_.size(), rows_here = rows.size(0), width = whole.size(1);
    at::Tensor leaving = whole;
    if (positions_.sequences > 1) {
      leaving = run_.empty(whole.sizes(), Category::communication);
      run_.run("order", {0, 2 * bytes_of(whole)},
               [&] { leaving.view(by_rank_shape(width)).copy_(by_rank(whole)); });
    }
    const at::Tensor arrived = run_.empty({ranks, rows_here, width}, Category::communication);
    exchange(arrived.view({ranks * rows_here, width}), leaving);
    run_.run("unpack", {0, 2 * bytes_of(arrived)}, [&] {
      for (int64_t rank = 0; rank < ranks; ++rank)
        for (const Columns& c : columns_of(heads_, rank, ranks)) {
          at::Tensor to = rows.narrow(1, c.from, c.size);
          const at::Tensor from = arrived[rank].narrow(1, c.to, c.size);
          c.is_first ? to.copy_(from) : to.add_(from);
        }
    });
  }

 private:
  // [ranks, sequences, rows of one rank, width]
  std::vector<int64_t> by_rank_shape(int64_t width) const {
    return {group_.size(), positions_.sequences, positions_.length, width};
  }
  // Whole sequences as a view in that shape.
  at::Tensor by_rank(const at::Tensor& whole) const {
    return whole.view({positions_.sequences, group_.size(), positions_.length, whole.size(1)})
        .transpose(0, 1);
  }
  void exchange(const at::Tensor& out, const at::Tensor& in) const {
    const std::vector<int64_t> counts(static_cast<size_t>(group_.size()), in.size(0) / group_.size());
    group_.peers().all_to_all(out, in, counts, counts).wait();
  }

  Executor& run_;
  ContextGroup group_;
  const Positions& positions_;
  HeadShape heads_;
};

}  // namespace

HeadShape share_of(const HeadShape& heads, int64_t ranks) {
  return {heads.query_heads / ranks, std::max<int64_t>(heads.key_heads / ranks, 1), heads.head_dim};
}

at::Tensor all_to_all_attention(Executor& run, const ContextGroup& group, HeadParts& parts,
                                const at::Tensor& qkv_NE, const Positions& positions,
                                const HeadShape& heads) {
  const Swap swap(run, group, positions, heads);
  const HeadShape share = share_of(heads, group.size());
  parts.qkv_ME = swap.to_heads(qkv_NE, share.row(), all_columns, Category::activations);
  parts.attention = attention(run, parts.qkv_ME, positions.whole_length, share, positions.blocks[0]);
  const at::Tensor out_NQ = run.empty({qkv_NE.size(0), heads.q_size()}, Category::activations);
  swap.to_tokens(out_NQ, parts.attention.out_NQ, query_columns);
  return out_NQ;
}

void all_to_all_attention_backward(Executor& run, const ContextGroup& group, at::Tensor qkv_NE,
                                   const HeadParts& parts, const at::Tensor& dout_NQ,
                                   const Positions& positions, const HeadShape& heads) {
  const Swap swap(run, group, positions, heads);
  const HeadShape share = share_of(heads, group.size());
  const at::Tensor dout_MQ = swap.to_heads(dout_NQ, share.q_size(), query_columns, Category::temporary);
  attention_backward(run, parts.qkv_ME, parts.attention, dout_MQ, positions.whole_length, share,
                     positions.blocks[0]);
  swap.to_tokens(qkv_NE, parts.qkv_ME, all_columns);
}

}  // namespace muster::nn
