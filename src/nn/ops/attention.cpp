#include "nn/ops/attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>

#include <cmath>

#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"
#include "nn/ops/tiled_attention.h"

namespace muster::nn {
namespace {

// A part of each row as heads: [B, heads, S, D], a view.
at::Tensor heads_of(const at::Tensor& rows_NE, int64_t length, int64_t first, int64_t heads,
                    int64_t head_dim) {
  return rows_NE.narrow(1, first, heads * head_dim).view({-1, length, heads, head_dim}).transpose(1, 2);
}

struct Heads {
  at::Tensor q_BQSD, k_BKSD, v_BKSD;
};

Heads split(const at::Tensor& qkv_NE, int64_t length, const HeadShape& shape) {
  const int64_t D = shape.head_dim;
  return {heads_of(qkv_NE, length, 0, shape.query_heads, D),
          heads_of(qkv_NE, length, shape.q_size(), shape.key_heads, D),
          heads_of(qkv_NE, length, shape.q_size() + shape.kv_size(), shape.key_heads, D)};
}

// FLOPs of one of the two products of causal attention: a query at position s meets s + 1 keys.
double causal_flops(int64_t rows, int64_t length, const HeadShape& shape) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(length + 1) / 2.0 *
         static_cast<double>(shape.q_size());
}

at::ScalarType statistics_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Writes a gradient by heads into its part of the rows, rotated back where a table is given.
void pack(at::Tensor qkv_NE, int64_t first, const at::Tensor& d_BHSD, int64_t length,
          const RotaryTable* table) {
  const int64_t heads = d_BHSD.size(1), head_dim = d_BHSD.size(3), rows = qkv_NE.size(0);
  at::Tensor part = heads_of(qkv_NE, length, first, heads, head_dim);
  const at::Tensor d_BSHD = d_BHSD.transpose(1, 2);
  if (!table || !part.is_cpu() || !d_BSHD.is_contiguous()) {
    part.copy_(d_BHSD);
    if (table)
      composite::rotate(qkv_NE.narrow(1, first, heads * head_dim).view({rows, heads, head_dim}),
                        table->cos_LD, table->sin_LD, /*back=*/true);
    return;
  }
  with_type(qkv_NE, [&](auto zero) {
    using T = decltype(zero);
    kernels::rotate_back(data<T>(qkv_NE) + first, data<T>(d_BSHD), data<T>(table->cos_LD),
                         data<T>(table->sin_LD), rows, length, heads, head_dim, qkv_NE.size(1),
                         heads * head_dim);
  });
}

void turn_back_in_place(at::Tensor qkv_NE, const HeadShape& shape, const RotaryTable& table) {
  const int64_t heads = shape.query_heads + shape.key_heads, row_size = qkv_NE.size(1);
  with_type(qkv_NE, [&](auto zero) {
    using T = decltype(zero);
    kernels::rotate_back(data<T>(qkv_NE), data<T>(qkv_NE), data<T>(table.cos_LD), data<T>(table.sin_LD),
                         qkv_NE.size(0), table.cos_LD.size(0), heads, shape.head_dim, row_size, row_size);
  });
}

AttentionOutput flash(const at::Tensor& qkv_NE, int64_t length, const HeadShape& shape) {
  const Heads heads = split(qkv_NE, length, shape);
  auto [out_BQSD, lse_BQS] = at::_scaled_dot_product_flash_attention_for_cpu(
      heads.q_BQSD, heads.k_BKSD, heads.v_BKSD, 0.0, /*is_causal=*/true);
  AttentionOutput result{out_BQSD.transpose(1, 2).reshape({qkv_NE.size(0), shape.q_size()}), lse_BQS};
  device::retag(result.out_NQ, Category::activations);
  device::retag(result.lse_BQS, Category::activations);
  return result;
}

struct HeadGradients {
  at::Tensor dq_BQSD, dk_BKSD, dv_BKSD;
};

HeadGradients empty_gradients(const Executor& run, int64_t sequences, int64_t length,
                              const HeadShape& shape) {
  const auto gradient = [&](int64_t heads) {
    return run.empty({sequences, heads, length, shape.head_dim}, Category::temporary);
  };
  return {gradient(shape.query_heads), gradient(shape.key_heads), gradient(shape.key_heads)};
}

HeadGradients flash_backward(const at::Tensor& qkv_NE, const AttentionOutput& saved,
                             const at::Tensor& dout_NQ, int64_t length, const HeadShape& shape) {
  const Heads heads = split(qkv_NE, length, shape);
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      heads_of(dout_NQ, length, 0, shape.query_heads, shape.head_dim), heads.q_BQSD, heads.k_BKSD,
      heads.v_BKSD, heads_of(saved.out_NQ, length, 0, shape.query_heads, shape.head_dim), saved.lse_BQS, 0.0,
      /*is_causal=*/true);
  for (const at::Tensor& gradient : {dq, dk, dv}) device::retag(gradient, Category::temporary);
  return {dq, dk, dv};
}

}  // namespace

void rotate(Executor& run, at::Tensor qkv_NE, const HeadShape& shape, const RotaryTable& table) {
  const int64_t heads = shape.query_heads + shape.key_heads, rows = qkv_NE.size(0);
  const Cost cost{0, 2 * rows * heads * shape.head_dim * static_cast<int64_t>(qkv_NE.element_size())};
  run.run("rotary", cost, [&] {
    if (!qkv_NE.is_cpu())
      return composite::rotate(
          qkv_NE.narrow(1, 0, heads * shape.head_dim).view({rows, heads, shape.head_dim}), table.cos_LD,
          table.sin_LD, /*back=*/false);
    with_type(qkv_NE, [&](auto zero) {
      using T = decltype(zero);
      kernels::rotate(data<T>(qkv_NE), data<T>(table.cos_LD), data<T>(table.sin_LD), rows,
                      table.cos_LD.size(0), heads, shape.head_dim, qkv_NE.size(1));
    });
  });
}

AttentionOutput attention(Executor& run, const at::Tensor& qkv_NE, int64_t length, const HeadShape& shape) {
  const int64_t rows = qkv_NE.size(0);
  const bool is_tiled = length >= kTiledFromLength;
  AttentionOutput result;
  if (run.is_meta() || is_tiled)
    result = {run.empty({rows, shape.q_size()}, Category::activations),
              run.empty({rows / length, shape.query_heads, length}, Category::activations,
                        statistics_type(qkv_NE))};
  const Cost cost{2 * causal_flops(rows, length, shape), static_cast<int64_t>(qkv_NE.nbytes())};
  run.run("attention", cost, [&] {
    if (is_tiled) return tiled_attention(result, qkv_NE, length, shape);
    result = flash(qkv_NE, length, shape);
  });
  return result;
}

void attention_backward(Executor& run, at::Tensor qkv_NE, const AttentionOutput& saved,
                        const at::Tensor& dout_NQ, int64_t length, const HeadShape& shape,
                        const RotaryTable& table) {
  const int64_t rows = qkv_NE.size(0);
  // Scores again, then the gradients of scores, values, queries and keys: five products to the forward's two.
  const Cost cost{5 * causal_flops(rows, length, shape), 3 * static_cast<int64_t>(qkv_NE.nbytes())};
  const Cost rotary_cost{0, 2 * static_cast<int64_t>(qkv_NE.nbytes())};
  const RotaryTable* turn = table.defined() ? &table : nullptr;
  if (length >= kTiledFromLength) {
    run.run("attention_backward", cost,
            [&] { tiled_attention_backward(qkv_NE, saved, dout_NQ, length, shape); });
    if (turn) run.run("rotary_backward", rotary_cost, [&] { turn_back_in_place(qkv_NE, shape, table); });
    return;
  }
  HeadGradients gradients;
  if (run.is_meta()) gradients = empty_gradients(run, rows / length, length, shape);
  run.run("attention_backward", cost,
          [&] { gradients = flash_backward(qkv_NE, saved, dout_NQ, length, shape); });
  run.run("rotary_backward", rotary_cost, [&] {
    pack(qkv_NE, 0, gradients.dq_BQSD, length, turn);
    pack(qkv_NE, shape.q_size(), gradients.dk_BKSD, length, turn);
    pack(qkv_NE, shape.q_size() + shape.kv_size(), gradients.dv_BKSD, length, nullptr);
  });
}

}  // namespace muster::nn
