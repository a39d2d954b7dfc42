// The operators as compositions of ATen's own: what other devices than the CPU run, and what the CPU kernels
// are tested against. Same arguments as the kernels, as tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include "nn/ops/attention.h"

namespace muster::nn::composite {

void add_bias(at::Tensor x_NO, const at::Tensor& bias_O);
void sum_rows(at::Tensor out, bool accumulate, const at::Tensor& x_NS, int64_t groups);
void embed(at::Tensor out_NH, const at::Tensor& table_VH, const at::Tensor& ids_N, int64_t first_id);
void embed_backward(at::Tensor dtable_VH, const at::Tensor& dy_NH, const at::Tensor& ids_N, int64_t first_id);
void rms_norm(at::Tensor y_NH, at::Tensor rstd_N, const at::Tensor& x_NH, const at::Tensor& w_H, double eps);
void rms_norm_again(at::Tensor y_NH, const at::Tensor& rstd_N, const at::Tensor& x_NH, const at::Tensor& w_H);
void rms_norm_backward(at::Tensor dx_NH, at::Tensor dw_H, bool accumulate_dw, const at::Tensor& dy_NH,
                       const at::Tensor& x_NH, const at::Tensor& rstd_N, const at::Tensor& w_H);
void layer_norm(at::Tensor y_NH, at::Tensor mean_N, at::Tensor rstd_N, const at::Tensor& x_NH,
                const at::Tensor& w_H, const at::Tensor& b_H, double eps);
void layer_norm_again(at::Tensor y_NH, const at::Tensor& mean_N, const at::Tensor& rstd_N,
                      const at::Tensor& x_NH, const at::Tensor& w_H, const at::Tensor& b_H);
void layer_norm_backward(at::Tensor dx_NH, at::Tensor dw_H, at::Tensor db_H, bool accumulate_dw,
                         bool accumulate_db, const at::Tensor& dy_NH, const at::Tensor& x_NH,
                         const at::Tensor& mean_N, const at::Tensor& rstd_N, const at::Tensor& w_H);
// x_NHD: the heads to rotate, a view of the rows that hold them.
void rotate(at::Tensor x_NHD, const at::Tensor& cos_LD, const at::Tensor& sin_LD, bool back);
// attention.h's, with the scores of a block's heads held at once.
void attention(const AttentionOutput& result, const at::Tensor& qkv_NE, int64_t length,
               const HeadShape& heads, const spec::Blocks& blocks);
void attention_backward(at::Tensor qkv_NE, const AttentionOutput& saved, const at::Tensor& dout_NQ,
                        int64_t length, const HeadShape& heads, const spec::Blocks& blocks);
void attention_to(const AttentionOutput& result, const at::Tensor& qkv_NE, const at::Tensor& kv_NK,
                  int64_t length, const HeadShape& heads, const spec::Blocks& blocks);
void attention_to_backward(at::Tensor dq_NQ, at::Tensor dkv_NK, const at::Tensor& qkv_NE,
                           const at::Tensor& kv_NK, const AttentionOutput& saved, const at::Tensor& dout_NQ,
                           int64_t length, const HeadShape& heads, const spec::Blocks& blocks);
void swiglu(at::Tensor h_NF, const at::Tensor& gate_up_NG);
void swiglu_backward(at::Tensor gate_up_NG, at::Tensor dh_NF);
void gelu(at::Tensor h, const at::Tensor& a);
void gelu_backward(at::Tensor a, at::Tensor dh);
void cross_entropy(at::Tensor logits_NV, at::Tensor losses_N, const at::Tensor& targets_N, bool gradient);
void largest_logit(at::Tensor most_N, const at::Tensor& logits_NV);
// sums_2N: the kernel's sums and picked.
void exp_sums(at::Tensor logits_NV, at::Tensor sums_2N, const at::Tensor& most_N, const at::Tensor& targets_N,
              int64_t first_id, bool gradient);
void split_cross_entropy(at::Tensor left_NV, at::Tensor losses_N, const at::Tensor& sums_2N,
                         const at::Tensor& most_N, const at::Tensor& targets_N, int64_t first_id,
                         bool gradient);

}  // namespace muster::nn::composite
