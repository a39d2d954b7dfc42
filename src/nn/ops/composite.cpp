#include "nn/ops/composite.h"

#include <cmath>

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
  put(out, accumulate, x_NS.view({-1, groups, x_NS.size(1)}).sum(0).view_as(out));
}

void embed(at::Tensor out_NH, const at::Tensor& table_VH, const at::Tensor& positions_LH,
           const at::Tensor& ids_N, int64_t length, int64_t first_id) {
  const auto [row_N, here_N] = rows_here(ids_N, first_id, table_VH.size(0));
  at::index_select_out(out_NH, table_VH, 0, row_N);
  out_NH.masked_fill_(here_N.logical_not().unsqueeze(1), 0);
  if (positions_LH.defined())
    out_NH.view({-1, length, out_NH.size(1)}).add_(positions_LH.narrow(0, 0, length));
}

void embed_backward(at::Tensor dtable_VH, const at::Tensor& dy_NH, const at::Tensor& ids_N,
                    int64_t first_id) {
  const auto [row_N, here_N] = rows_here(ids_N, first_id, dtable_VH.size(0));
  dtable_VH.index_add_(0, row_N, dy_NH * here_N.unsqueeze(1));
}

void rms_norm(at::Tensor y_NH, at::Tensor rstd_N, const at::Tensor& x_NH, const at::Tensor& w_H, double eps) {
  rstd_N.copy_(x_NH.square().mean(1).add(eps).rsqrt());
  rms_norm_again(y_NH, rstd_N, x_NH, w_H);
}

void rms_norm_again(at::Tensor y_NH, const at::Tensor& rstd_N, const at::Tensor& x_NH,
                    const at::Tensor& w_H) {
  at::mul_out(y_NH, x_NH * rstd_N.unsqueeze(1), w_H);
}

void rms_norm_backward(at::Tensor dx_NH, at::Tensor dw_H, bool accumulate_dw, const at::Tensor& dy_NH,
                       const at::Tensor& x_NH, const at::Tensor& rstd_N, const at::Tensor& w_H) {
  const at::Tensor scale_N1 = rstd_N.unsqueeze(1);
  const at::Tensor unit_NH = x_NH * scale_N1;
  const at::Tensor d_NH = dy_NH * w_H;
  dx_NH.add_(scale_N1 * (d_NH - unit_NH * (d_NH * unit_NH).mean(1, true)));
  put(dw_H, accumulate_dw, (dy_NH * unit_NH).sum(0));
}

void layer_norm(at::Tensor y_NH, at::Tensor mean_N, at::Tensor rstd_N, const at::Tensor& x_NH,
                const at::Tensor& w_H, const at::Tensor& b_H, double eps) {
  mean_N.copy_(x_NH.mean(1));
  rstd_N.copy_((x_NH - mean_N.unsqueeze(1)).square().mean(1).add(eps).rsqrt());
  layer_norm_again(y_NH, mean_N, rstd_N, x_NH, w_H, b_H);
}

void layer_norm_again(at::Tensor y_NH, const at::Tensor& mean_N, const at::Tensor& rstd_N,
                      const at::Tensor& x_NH, const at::Tensor& w_H, const at::Tensor& b_H) {
  y_NH.copy_((x_NH - mean_N.unsqueeze(1)) * rstd_N.unsqueeze(1) * w_H + b_H);
}

void layer_norm_backward(at::Tensor dx_NH, at::Tensor dw_H, at::Tensor db_H, bool accumulate_dw,
                         bool accumulate_db, const at::Tensor& dy_NH, const at::Tensor& x_NH,
                         const at::Tensor& mean_N, const at::Tensor& rstd_N, const at::Tensor& w_H) {
  const at::Tensor scale_N1 = rstd_N.unsqueeze(1);
  const at::Tensor unit_NH = (x_NH - mean_N.unsqueeze(1)) * scale_N1;
  const at::Tensor d_NH = dy_NH * w_H;
  dx_NH.add_(scale_N1 * (d_NH - d_NH.mean(1, true) - unit_NH * (d_NH * unit_NH).mean(1, true)));
  put(dw_H, accumulate_dw, (dy_NH * unit_NH).sum(0));
  put(db_H, accumulate_db, dy_NH.sum(0));
}

void rotate(at::Tensor x_NHD, const at::Tensor& cos_LD, const at::Tensor& sin_LD, bool back) {
  const int64_t half = cos_LD.size(1), length = cos_LD.size(0);
  const at::Tensor x = x_NHD.unflatten(0, {-1, length});  // [B, L, H, D]
  at::Tensor first = x.narrow(3, 0, half), second = x.narrow(3, half, half);
  const at::Tensor cos = cos_LD.unsqueeze(1), sin = back ? sin_LD.neg().unsqueeze(1) : sin_LD.unsqueeze(1);
  const at::Tensor turned = first * cos - second * sin;
  second.copy_(second * cos + first * sin);
  first.copy_(turned);
}

namespace {

// The parts of fused rows by groups of query heads that share a key head: q [B, K, G, S, D], k and v [B, K,
// 1, S, D]; views.
struct Grouped {
  at::Tensor q, k, v;
};

at::Tensor grouped(const at::Tensor& rows_NE, int64_t first, int64_t key_heads, int64_t group, int64_t length,
                   int64_t head_dim) {
  return rows_NE.narrow(1, first, key_heads * group * head_dim)
      .view({-1, length, key_heads, group, head_dim})
      .permute({0, 2, 3, 1, 4});
}

Grouped split(const at::Tensor& qkv_NE, int64_t length, const HeadShape& h) {
  const int64_t group = h.query_heads / h.key_heads;
  return {grouped(qkv_NE, 0, h.key_heads, group, length, h.head_dim),
          grouped(qkv_NE, h.q_size(), h.key_heads, 1, length, h.head_dim),
          grouped(qkv_NE, h.q_size() + h.kv_size(), h.key_heads, 1, length, h.head_dim)};
}

double scale_of(const HeadShape& h) {
  return 1 / std::sqrt(static_cast<double>(h.head_dim));
}

// q k^T / sqrt(D), with minus infinity where the key lies ahead of the query.
at::Tensor causal_scores(const Grouped& x, int64_t length, const HeadShape& h) {
  const at::Tensor ahead = at::ones({length, length}, x.q.options().dtype(at::kBool)).triu(1);
  return (at::matmul(x.q, x.k.transpose(3, 4)) * scale_of(h)).masked_fill(ahead, -INFINITY);
}

}  // namespace

void attention(const AttentionOutput& result, const at::Tensor& qkv_NE, int64_t length, const HeadShape& h) {
  const Grouped x = split(qkv_NE, length, h);
  const at::Tensor scores = causal_scores(x, length, h);
  const at::Tensor lse = scores.logsumexp(-1);
  grouped(result.out_NQ, 0, h.key_heads, h.query_heads / h.key_heads, length, h.head_dim)
      .copy_(at::matmul((scores - lse.unsqueeze(-1)).exp(), x.v));
  result.lse_BQS.view_as(lse).copy_(lse);
}

void attention_backward(at::Tensor qkv_NE, const AttentionOutput& saved, const at::Tensor& dout_NQ,
                        int64_t length, const HeadShape& h) {
  const int64_t group = h.query_heads / h.key_heads;
  Grouped x = split(qkv_NE, length, h);
  const at::Tensor dout = grouped(dout_NQ, 0, h.key_heads, group, length, h.head_dim);
  const at::Tensor out = grouped(saved.out_NQ, 0, h.key_heads, group, length, h.head_dim);
  const at::Tensor lse = saved.lse_BQS.view({-1, h.key_heads, group, length, 1});
  const at::Tensor share = (causal_scores(x, length, h) - lse).exp();
  const at::Tensor dv = at::matmul(share.transpose(3, 4), dout).sum(2, true);
  const at::Tensor dshare = at::matmul(dout, x.v.transpose(3, 4));
  const at::Tensor dscores = share * (dshare - (dout * out).sum(-1, true)) * scale_of(h);
  const at::Tensor dq = at::matmul(dscores, x.k);
  const at::Tensor dk = at::matmul(dscores.transpose(3, 4), x.q).sum(2, true);
  x.q.copy_(dq);
  x.k.copy_(dk);
  x.v.copy_(dv);
}

void swiglu(at::Tensor h_NF, const at::Tensor& gate_up_NG) {
  const int64_t size = h_NF.size(1);
  at::mul_out(h_NF, at::silu(gate_up_NG.narrow(1, 0, size)), gate_up_NG.narrow(1, size, size));
}

void swiglu_backward(at::Tensor gate_up_NG, at::Tensor dh_NF) {
  const int64_t size = dh_NF.size(1);
  at::Tensor gate = gate_up_NG.narrow(1, 0, size), up = gate_up_NG.narrow(1, size, size);
  const at::Tensor silu = at::silu(gate), dsilu = dh_NF * up, dup = dh_NF * silu;
  dh_NF.copy_(silu * up);
  gate.copy_(at::silu_backward(dsilu, gate));
  up.copy_(dup);
}

void gelu(at::Tensor h, const at::Tensor& a) {
  at::gelu_out(h, a, "tanh");
}

void gelu_backward(at::Tensor a, at::Tensor dh) {
  const at::Tensor da = at::gelu_backward(dh, a, "tanh");
  at::gelu_out(dh, a, "tanh");
  a.copy_(da);
}

void cross_entropy(at::Tensor logits_NV, at::Tensor losses_N, const at::Tensor& targets_N, bool gradient) {
  const at::Tensor counted_N = targets_N.ge(0);
  const at::Tensor index_N1 = targets_N.clamp_min(0).to(at::kLong).unsqueeze(1);
  const at::Tensor log_NV = at::log_softmax(logits_NV, 1);
  losses_N.copy_(log_NV.gather(1, index_N1).squeeze(1).neg() * counted_N);
  if (!gradient) return;
  at::exp_out(logits_NV, log_NV);
  logits_NV.scatter_add_(1, index_N1, at::full_like(index_N1, -1, logits_NV.options()));
  logits_NV.mul_(counted_N.unsqueeze(1));
}

void largest_logit(at::Tensor most_N, const at::Tensor& logits_NV) {
  if (logits_NV.size(1) == 0) {
    most_N.fill_(-INFINITY);
    return;
  }
  at::amax_out(most_N, logits_NV, 1);
}

void exp_sums(at::Tensor logits_NV, at::Tensor sums_2N, const at::Tensor& most_N, const at::Tensor& targets_N,
              int64_t first_id, bool gradient) {
  const auto [row_N, here_N] = rows_here(targets_N, first_id, logits_NV.size(1));
  const at::Tensor counted_N = here_N.logical_and(targets_N.ge(0));
  sums_2N[1].copy_(logits_NV.gather(1, row_N.to(at::kLong).unsqueeze(1)).squeeze(1) * counted_N);
  const at::Tensor exps_NV = (logits_NV - most_N.unsqueeze(1)).exp_();
  sums_2N[0].copy_(exps_NV.sum(1, false, at::kDouble));
  if (gradient) logits_NV.copy_(exps_NV);
}

void split_cross_entropy(at::Tensor exps_NV, at::Tensor losses_N, const at::Tensor& sums_2N,
                         const at::Tensor& most_N, const at::Tensor& targets_N, int64_t first_id,
                         bool gradient) {
  const at::Tensor counted_N = targets_N.ge(0);
  losses_N.copy_((sums_2N[0].log() + most_N - sums_2N[1]).masked_fill(counted_N.logical_not(), 0));
  if (!gradient) return;
  const auto [row_N, here_N] = rows_here(targets_N, first_id, exps_NV.size(1));
  exps_NV.mul_((counted_N / sums_2N[0]).to(exps_NV.scalar_type()).unsqueeze(1));
  const at::Tensor one_N1 = here_N.logical_and(counted_N).to(exps_NV.scalar_type()).unsqueeze(1);
  exps_NV.scatter_add_(1, row_N.to(at::kLong).unsqueeze(1), -one_N1);
}

}  // namespace muster::nn::composite
