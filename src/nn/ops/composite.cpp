#include "nn/ops/composite.h"

#include <cmath>

#include "nn/wide.h"

namespace muster::nn::composite {
namespace {

void put(at::Tensor out, bool accumulate, const at::Tensor& value) {
  if (accumulate)
    out.add_(value);
  else
    out.copy_(value);
}

// Which ids are of the `count` rows from first_id on, and their rows; 0 for the others.
std::pair<at::Tensor, at::Tensor> rows_here(const at::Tensor& ids_N, int64_t first_id, int64_t count) {
  const at::Tensor row_N = ids_N - first_id, here_N = row_N.ge(0).logical_and(row_N.lt(count));
  return {row_N.masked_fill(here_N.logical_not(), 0), here_N};
}

}  // namespace

void add_bias(at::Tensor x_NO, const at::Tensor& bias_O) {
  x_NO.add_(bias_O);
}

void sum_rows(at::Tensor out, bool accumulate, const at::Tensor& x_NS, int64_t groups) {
  put(out, accumulate, wide(x_NS).view({-1, groups, x_NS.size(1)}).sum(0).view_as(out));
}

void embed(at::Tensor out_NH, const at::Tensor& table_VH, const at::Tensor& ids_N, int64_t first_id) {
  const auto [row_N, here_N] = rows_here(ids_N, first_id, table_VH.size(0));
  at::index_select_out(out_NH, table_VH, 0, row_N);
  out_NH.masked_fill_(here_N.logical_not().unsqueeze(1), 0);
}

void embed_backward(at::Tensor dtable_VH, const at::Tensor& dy_NH, const at::Tensor& ids_N,
                    int64_t first_id) {
  const auto [row_N, here_N] = rows_here(ids_N, first_id, dtable_VH.size(0));
  in_wide(dtable_VH,
          [&](const at::Tensor& sums) { sums.index_add_(0, row_N, wide(dy_NH) * here_N.unsqueeze(1)); });
}

void rms_norm(at::Tensor y_NH, at::Tensor rstd_N, const at::Tensor& x_NH, const at::Tensor& w_H, double eps) {
  rstd_N.copy_(wide(x_NH).square().mean(1).add(eps).rsqrt());
  rms_norm_again(y_NH, rstd_N, x_NH, w_H);
}

void rms_norm_again(at::Tensor y_NH, const at::Tensor& rstd_N, const at::Tensor& x_NH,
                    const at::Tensor& w_H) {
  at::mul_out(y_NH, wide(x_NH) * rstd_N.unsqueeze(1), wide(w_H));
}

void rms_norm_backward(at::Tensor dx_NH, at::Tensor dw_H, bool accumulate_dw, const at::Tensor& dy_NH,
                       const at::Tensor& x_NH, const at::Tensor& rstd_N, const at::Tensor& w_H) {
  const at::Tensor scale_N1 = rstd_N.unsqueeze(1);
  const at::Tensor unit_NH = wide(x_NH) * scale_N1;
  const at::Tensor d_NH = wide(dy_NH) * wide(w_H);
  dx_NH.add_(scale_N1 * (d_NH - unit_NH * (d_NH * unit_NH).mean(1, true)));
  put(dw_H, accumulate_dw, (wide(dy_NH) * unit_NH).sum(0));
}

void layer_norm(at::Tensor y_NH, at::Tensor mean_N, at::Tensor rstd_N, const at::Tensor& x_NH,
                const at::Tensor& w_H, const at::Tensor& b_H, double eps) {
  mean_N.copy_(wide(x_NH).mean(1));
  rstd_N.copy_((wide(x_NH) - mean_N.unsqueeze(1)).square().mean(1).add(eps).rsqrt());
  layer_norm_again(y_NH, mean_N, rstd_N, x_NH, w_H, b_H);
}

void layer_norm_again(at::Tensor y_NH, const at::Tensor& mean_N, const at::Tensor& rstd_N,
                      const at::Tensor& x_NH, const at::Tensor& w_H, const at::Tensor& b_H) {
  y_NH.copy_((wide(x_NH) - mean_N.unsqueeze(1)) * rstd_N.unsqueeze(1) * wide(w_H) + wide(b_H));
}

void layer_norm_backward(at::Tensor dx_NH, at::Tensor dw_H, at::Tensor db_H, bool accumulate_dw,
                         bool accumulate_db, const at::Tensor& dy_NH, const at::Tensor& x_NH,
                         const at::Tensor& mean_N, const at::Tensor& rstd_N, const at::Tensor& w_H) {
  const at::Tensor scale_N1 = rstd_N.unsqueeze(1);
  const at::Tensor unit_NH = (wide(x_NH) - mean_N.unsqueeze(1)) * scale_N1;
  const at::Tensor d_NH = wide(dy_NH) * wide(w_H);
  dx_NH.add_(scale_N1 * (d_NH - d_NH.mean(1, true) - unit_NH * (d_NH * unit_NH).mean(1, true)));
  put(dw_H, accumulate_dw, (wide(dy_NH) * unit_NH).sum(0));
  put(db_H, accumulate_db, wide(dy_NH).sum(0));
}

void rotate(at::Tensor x_NHD, const at::Tensor& cos_LD, const at::Tensor& sin_LD, bool back) {
  const int64_t half = cos_LD.size(1), length = cos_LD.size(0);
  const at::Tensor x = x_NHD.unflatten(0, {-1, length});  // [B, L, H, D]
  at::Tensor first = x.narrow(3, 0, half), second = x.narrow(3, half, half);
  const at::Tensor cos = cos_LD.unsqueeze(1), sin = back ? sin_LD.neg().unsqueeze(1) : sin_LD.unsqueeze(1);
  const at::Tensor turned = wide(first) * cos - wide(second) * sin;
  second.copy_(wide(second) * cos + wide(first) * sin);
  first.copy_(turned);
}

namespace {

// Heads of rows of one sequence, by groups of query heads that share a key head: [K, G, S, D]; views.
at::Tensor heads_of(const at::Tensor& rows_SE, int64_t first, int64_t key_heads, int64_t group,
                    int64_t head_dim) {
  return rows_SE.narrow(1, first, key_heads * group * head_dim)
      .view({-1, key_heads, group, head_dim})
      .permute({1, 2, 0, 3});
}

// What one block works on, views all. Keys and values stand in rows kv, the keys' heads from `first` on.
struct BlockViews {
  BlockViews(const spec::Block& block, int64_t length, const HeadShape& h)
      : query_row(block.sequence * length + block.first_query),
        key_row(block.sequence * length + block.first_key),
        block(block),
        h(h) {}
  at::Tensor q(const at::Tensor& rows_NQ) const {
    return heads_of(rows_NQ.narrow(0, query_row, block.queries), 0, h.key_heads, h.query_heads / h.key_heads,
                    h.head_dim);
  }
  at::Tensor k(const at::Tensor& rows, int64_t first) const {
    return heads_of(rows.narrow(0, key_row, block.keys), first, h.key_heads, 1, h.head_dim);
  }
  at::Tensor v(const at::Tensor& rows, int64_t first) const { return k(rows, first + h.kv_size()); }
  at::Tensor lse(const at::Tensor& lse_BQS) const {
    return lse_BQS[block.sequence]
        .narrow(1, block.first_query, block.queries)
        .view({h.key_heads, h.query_heads / h.key_heads, block.queries, 1});
  }
  // q k^T / sqrt(D), with minus infinity where the key lies ahead of the query.
  at::Tensor scores(const at::Tensor& q, const at::Tensor& k) const {
    const at::Tensor all =
        at::matmul(wide(q), wide(k).transpose(2, 3)) / std::sqrt(static_cast<double>(h.head_dim));
    if (!block.causal) return all;
    return all.masked_fill(at::ones({block.queries, block.keys}, q.options().dtype(at::kBool)).triu(1),
                           -INFINITY);
  }
  int64_t query_row, key_row;
  const spec::Block& block;
  const HeadShape& h;
};

struct BlockGradient {
  at::Tensor dq, dk, dv;
};
BlockGradient gradient_of(const BlockViews& at, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const AttentionOutput& saved, const at::Tensor& dout_NQ) {
  const at::Tensor dout = wide(at.q(dout_NQ)), out = wide(at.q(saved.out_NQ));
  const at::Tensor share = (at.scores(q, k) - at.lse(saved.lse_BQS)).exp();
  const at::Tensor dshare = at::matmul(dout, wide(v).transpose(2, 3));
  const at::Tensor dscores =
      share * (dshare - (dout * out).sum(-1, true)) / std::sqrt(static_cast<double>(at.h.head_dim));
  return {at::matmul(dscores, wide(k)), at::matmul(dscores.transpose(2, 3), wide(q)).sum(1, true),
          at::matmul(share.transpose(2, 3), dout).sum(1, true)};
}

}  // namespace

void attention(const AttentionOutput& result, const at::Tensor& qkv_NE, int64_t length, const HeadShape& h,
               const spec::Blocks& blocks) {
  for (const spec::Block& block : blocks) {
    const BlockViews at(block, length, h);
    const at::Tensor scores = at.scores(at.q(qkv_NE), at.k(qkv_NE, h.q_size()));
    const at::Tensor lse = scores.logsumexp(-1, true);
    at.q(result.out_NQ).copy_(at::matmul((scores - lse).exp(), wide(at.v(qkv_NE, h.q_size()))));
    at.lse(result.lse_BQS).copy_(lse);
  }
}

void attention_backward(at::Tensor qkv_NE, const AttentionOutput& saved, const at::Tensor& dout_NQ,
                        int64_t length, const HeadShape& h, const spec::Blocks& blocks) {
  for (const spec::Block& block : blocks) {
    const BlockViews at(block, length, h);
    at::Tensor q = at.q(qkv_NE), k = at.k(qkv_NE, h.q_size()), v = at.v(qkv_NE, h.q_size());
    const BlockGradient gradient = gradient_of(at, q, k, v, saved, dout_NQ);
    q.copy_(gradient.dq);
    k.copy_(gradient.dk);
    v.copy_(gradient.dv);
  }
}

void attention_to(const AttentionOutput& result, const at::Tensor& qkv_NE, const at::Tensor& kv_NK,
                  int64_t length, const HeadShape& h, const spec::Blocks& blocks) {
  for (const spec::Block& block : blocks) {
    const BlockViews at(block, length, h);
    const at::Tensor scores = at.scores(at.q(qkv_NE), at.k(kv_NK, 0));
    at::Tensor lse = at.lse(result.lse_BQS), out = at.q(result.out_NQ);
    const at::Tensor all = at::logaddexp(lse, scores.logsumexp(-1, true));
    out.copy_(wide(out) * (lse - all).exp() + at::matmul((scores - all).exp(), wide(at.v(kv_NK, 0))));
    lse.copy_(all);
  }
}

void attention_to_backward(at::Tensor dq_NQ, at::Tensor dkv_NK, const at::Tensor& qkv_NE,
                           const at::Tensor& kv_NK, const AttentionOutput& saved, const at::Tensor& dout_NQ,
                           int64_t length, const HeadShape& h, const spec::Blocks& blocks) {
  for (const spec::Block& block : blocks) {
    const BlockViews at(block, length, h);
    const BlockGradient gradient =
        gradient_of(at, at.q(qkv_NE), at.k(kv_NK, 0), at.v(kv_NK, 0), saved, dout_NQ);
    at.q(dq_NQ).add_(gradient.dq);
    at.k(dkv_NK, 0).add_(gradient.dk);
    at.v(dkv_NK, 0).add_(gradient.dv);
  }
}

void swiglu(at::Tensor h_NF, const at::Tensor& gate_up_NG) {
  const int64_t size = h_NF.size(1);
  at::mul_out(h_NF, at::silu(wide(gate_up_NG.narrow(1, 0, size))), wide(gate_up_NG.narrow(1, size, size)));
}

void swiglu_backward(at::Tensor gate_up_NG, at::Tensor dh_NF) {
  const int64_t size = dh_NF.size(1);
  at::Tensor gate = gate_up_NG.narrow(1, 0, size), up = gate_up_NG.narrow(1, size, size);
  const at::Tensor dh = wide(dh_NF), silu = at::silu(wide(gate)), dsilu = dh * wide(up), dup = dh * silu;
  dh_NF.copy_(silu * wide(up));
  gate.copy_(at::silu_backward(dsilu, wide(gate)));
  up.copy_(dup);
}

void gelu(at::Tensor h, const at::Tensor& a) {
  h.copy_(at::gelu(wide(a), "tanh"));
}

void gelu_backward(at::Tensor a, at::Tensor dh) {
  const at::Tensor from = wide(a), da = at::gelu_backward(wide(dh), from, "tanh");
  dh.copy_(at::gelu(from, "tanh"));
  a.copy_(da);
}

void cross_entropy(at::Tensor logits_NV, at::Tensor losses_N, const at::Tensor& targets_N, bool gradient) {
  const at::Tensor counted_N = targets_N.ge(0);
  const at::Tensor index_N1 = targets_N.clamp_min(0).to(at::kLong).unsqueeze(1);
  at::Tensor log_NV = at::log_softmax(wide(logits_NV), 1);
  losses_N.copy_(log_NV.gather(1, index_N1).squeeze(1).neg() * counted_N);
  if (!gradient) return;
  at::Tensor gradient_NV = log_NV.exp_();
  gradient_NV.scatter_add_(1, index_N1, at::full_like(index_N1, -1, gradient_NV.options()));
  logits_NV.copy_(gradient_NV.mul_(counted_N.unsqueeze(1)));
}

void largest_logit(at::Tensor most_N, const at::Tensor& logits_NV) {
  if (logits_NV.size(1) == 0) {
    most_N.fill_(-INFINITY);
    return;
  }
  most_N.copy_(logits_NV.amax(1));
}

void exp_sums(at::Tensor logits_NV, at::Tensor sums_2N, const at::Tensor& most_N, const at::Tensor& targets_N,
              int64_t first_id, bool gradient) {
  const auto [row_N, here_N] = rows_here(targets_N, first_id, logits_NV.size(1));
  const at::Tensor counted_N = here_N.logical_and(targets_N.ge(0));
  sums_2N[1].copy_(logits_NV.gather(1, row_N.to(at::kLong).unsqueeze(1)).squeeze(1) * counted_N);
  const at::Tensor exps_NV = (wide(logits_NV) - most_N.unsqueeze(1)).exp_();
  sums_2N[0].copy_(exps_NV.sum(1, false, at::kDouble));
  if (gradient && !is_narrow(logits_NV)) logits_NV.copy_(exps_NV);
}

void split_cross_entropy(at::Tensor left_NV, at::Tensor losses_N, const at::Tensor& sums_2N,
                         const at::Tensor& most_N, const at::Tensor& targets_N, int64_t first_id,
                         bool gradient) {
  const at::Tensor counted_N = targets_N.ge(0);
  losses_N.copy_((sums_2N[0].log() + most_N - sums_2N[1]).masked_fill(counted_N.logical_not(), 0));
  if (!gradient) return;
  const auto [row_N, here_N] = rows_here(targets_N, first_id, left_NV.size(1));
  // What exp_sums left of bfloat16 are the logits.
  at::Tensor exps_NV = is_narrow(left_NV) ? (wide(left_NV) - most_N.unsqueeze(1)).exp_() : left_NV;
  exps_NV.mul_((counted_N / sums_2N[0]).to(exps_NV.scalar_type()).unsqueeze(1));
  const at::Tensor one_N1 = here_N.logical_and(counted_N).to(exps_NV.scalar_type()).unsqueeze(1);
  exps_NV.scatter_add_(1, row_N.to(at::kLong).unsqueeze(1), -one_N1);
  if (is_narrow(left_NV)) left_NV.copy_(exps_NV);
}

}  // namespace muster::nn::composite
