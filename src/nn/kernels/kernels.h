// CPU kernels over raw rows, for T = float, double and bfloat16, which is computed in fp32 and rounded once
// as it is stored (wide.h). G, the type of a parameter's gradient, is T, or float where T is bfloat16. Every
// reduction has a fixed order that does not depend on the number of threads, so that results are the same
// bits for any. Pointers do not overlap unless said.
#pragma once
#include <cstdint>

#include "base/random.h"
#include "nn/kernels/wide.h"

namespace muster::nn::kernels {

// ---- norms over rows of `size` (norm.cpp) ----
// y = x * rstd * w, rstd = (mean(x^2) + eps)^-1/2.
template <class T>
void rms_norm(T* y, wide_t<T>* rstd, const T* x, const T* w, int64_t rows, int64_t size, double eps);
// y from a known rstd: the same bits as the forward pass gave.
template <class T>
void rms_norm_again(T* y, const wide_t<T>* rstd, const T* x, const T* w, int64_t rows, int64_t size);
// dx += gradient of x; dw = or += gradient of w.
template <class T, class G>
void rms_norm_backward(T* dx, G* dw, bool accumulate_dw, const T* dy, const T* x, const wide_t<T>* rstd,
                       const T* w, int64_t rows, int64_t size);

// y = (x - mean) * rstd * w + b.
template <class T>
void layer_norm(T* y, wide_t<T>* mean, wide_t<T>* rstd, const T* x, const T* w, const T* b, int64_t rows,
                int64_t size, double eps);
template <class T>
void layer_norm_again(T* y, const wide_t<T>* mean, const wide_t<T>* rstd, const T* x, const T* w, const T* b,
                      int64_t rows, int64_t size);
template <class T, class G>
void layer_norm_backward(T* dx, G* dw, G* db, bool accumulate_dw, bool accumulate_db, const T* dy, const T* x,
                         const wide_t<T>* mean, const wide_t<T>* rstd, const T* w, int64_t rows,
                         int64_t size);

// ---- rotary positions, half-split: (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin) (rotary.cpp) ----
// In place on the first `heads` heads of each row of `row_size`; row r stands at position r % length; cos and
// sin are [length, head_dim / 2].
template <class T>
void rotate(T* x, const wide_t<T>* cos, const wide_t<T>* sin, int64_t rows, int64_t length, int64_t heads,
            int64_t head_dim, int64_t row_size);
// out[row, 0:heads] = x[row, 0:heads] rotated back; x has `x_row_size` a row, out has `out_row_size`. out may
// be x.
template <class T>
void rotate_back(T* out, const T* x, const wide_t<T>* cos, const wide_t<T>* sin, int64_t rows, int64_t length,
                 int64_t heads, int64_t head_dim, int64_t out_row_size, int64_t x_row_size);

// ---- causal softmax over one tile of scores (attention.cpp) ----
// Rows are the queries at positions first, first + 1, ...; columns the keys from 0. Row r sees first + r + 1
// of them, at most all: those become softmax(scale * scores), the others 0. lse[r] = log of the sum of their
// exponentials. For T = float and double: scores are never stored in bfloat16.
template <class T>
void causal_softmax(T* scores, T* lse, int64_t rows, int64_t columns, int64_t first, double scale);
// From scores and the gradient dp of their softmax: scores become the softmax again, dp the gradient of the
// scores before scaling. out and dout are rows of `row_size` that start with this head's `head_dim` elements.
template <class T>
void causal_softmax_backward(wide_t<T>* scores, wide_t<T>* dp, const wide_t<T>* lse, const T* out,
                             const T* dout, int64_t row_size, int64_t head_dim, int64_t rows, int64_t columns,
                             int64_t first, double scale);

// The softmax-weighted sums out over some keys and more over others become those over both, and so do the
// logs lse and more_lse of their weights (Milakov and Gimelshein 2018, "Online normalizer"). Rows of out are
// `row_size` apart, those of more `head_dim`.
template <class T>
void merge_softmax(T* out, wide_t<T>* lse, const wide_t<T>* more, const wide_t<T>* more_lse, int64_t row_size,
                   int64_t head_dim, int64_t rows);

// ---- activations (activation.cpp) ----
// Rows of gate_up are [gate, up], each `size`: h = silu(gate) * up (Shazeer 2020, "GLU variants", equation
// 6).
template <class T>
void swiglu(T* h, const T* gate_up, int64_t rows, int64_t size);
// In place: gate_up becomes its gradient; dh becomes h again, for the gradient of the next weight.
template <class T>
void swiglu_backward(T* gate_up, T* dh, int64_t rows, int64_t size);
// GELU by tanh (Hendrycks and Gimpel 2016, section 2), Hugging Face's "gelu_new".
template <class T>
void gelu(T* h, const T* a, int64_t count);
// In place: a becomes its gradient; dh becomes h again.
template <class T>
void gelu_backward(T* a, T* dh, int64_t count);

// ---- loss over the vocabulary (cross_entropy.cpp) ----
// Each row of logits [rows, vocabulary] becomes softmax - onehot(target); losses[row] = logsumexp - logit of
// target. A target < 0 is not counted: loss 0 and a zero row. With `gradient` false only losses are written.
template <class T>
void cross_entropy(T* logits, double* losses, const int32_t* targets, int64_t rows, int64_t vocabulary,
                   bool gradient);

// The same where the vocabulary is split, in three steps; each rank has logits [rows, size] of ids from
// first_id on. most[row] = the largest logit here.
template <class T>
void largest_logit(T* most, const T* logits, int64_t rows, int64_t size);
// With most[row] the largest of all ranks: sums[row] = the sum of exp(logit - most) here, picked[row] = the
// target's logit where it is here, else 0. With `gradient` the logits become exp(logit - most); those of
// bfloat16 stay, so that their gradient is rounded once.
template <class T>
void exp_sums(T* logits, double* sums, double* picked, const T* most, const int32_t* targets, int64_t rows,
              int64_t size, int64_t first_id, bool gradient);
// With sums and picked over all ranks: losses[row]; with `gradient` what exp_sums left becomes softmax -
// onehot.
template <class T>
void split_cross_entropy(T* exps, double* losses, const double* sums, const double* picked, const T* most,
                         const int32_t* targets, int64_t rows, int64_t size, int64_t first_id, bool gradient);

// ---- rows and sums (rows.cpp) ----
// table has the rows of ids [first_id, first_id + ids_here): the others give 0 and take nothing.
// out[row] = table[ids[row]].
template <class T>
void embed(T* out, const T* table, const int32_t* ids, int64_t rows, int64_t size, int64_t first_id,
           int64_t ids_here);
// dtable[ids[row]] += dy[row], in row order; the rows of one id are summed before they are rounded.
template <class T, class G>
void embed_backward(G* dtable, const T* dy, const int32_t* ids, int64_t rows, int64_t size, int64_t first_id,
                    int64_t ids_here);
// out [groups, size] = or += sums of the rows of x; row r goes to out[r % groups].
template <class T, class G>
void sum_rows(G* out, bool accumulate, const T* x, int64_t rows, int64_t size, int64_t groups);
// x[row] += bias.
template <class T>
void add_bias(T* x, const T* bias, int64_t rows, int64_t size);
// Sum of squares in fp64.
template <class T>
double sum_of_squares(const T* x, int64_t count);

// ---- random numbers by position (noise.cpp) ----
// x[i] = scale * the standard normal number of logical position first + i (Box and Muller 1958 over Philox
// words).
template <class T>
void fill_normal(T* x, int64_t count, int64_t first, PhiloxKey key, double scale);
// out[i] = x[i] / (1 - p) where the draw of logical position first + i keeps it, else 0; `draw` numbers the
// step. out may be x.
template <class T>
void dropout(T* out, const T* x, int64_t count, int64_t first, uint64_t draw, PhiloxKey key, double p);

// One update's constants of AdamW (Loshchilov and Hutter 2019, algorithm 2). `divisor` of the gradient;
// `correction1`, `correction2`: 1 - beta^update.
struct AdamW {
  double learning_rate = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0, divisor = 1;
  double correction1 = 1, correction2 = 1;
};
// Each of the values T, the gradient G and the moments S in a format of its own, float or c10::BFloat16; or
// T = G = double with S = c10::BFloat16. Arithmetic in fp32 (of double: in double), each result rounded once
// to nearest even.
template <class T, class G, class S>
void adamw(T* value, const G* gradient, S* first, S* second, int64_t count, const AdamW& rule);

}  // namespace muster::nn::kernels
