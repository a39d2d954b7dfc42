#include "nn/ops/attention.h"

#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"
#include "nn/ops/tiled_attention.h"

namespace muster::nn {
namespace {

// FLOPs of one of the products of attention: each pair of a query and a key takes one of D elements a head.
double product_flops(const spec::Blocks& blocks, const HeadShape& shape) {
  return 2.0 * static_cast<double>(spec::pairs_of(blocks)) * static_cast<double>(shape.q_size());
}

void rotate_run(const at::Tensor& qkv_NE, const HeadShape& shape, const RotaryTable& table, const RowRun& at,
                bool back) {
  const int64_t heads = shape.query_heads + shape.key_heads, row_size = qkv_NE.size(1);
  const at::Tensor cos = table.cos_LD.narrow(0, at.position, at.rows),
                   sin = table.sin_LD.narrow(0, at.position, at.rows);
  const at::Tensor rows_NE = qkv_NE.narrow(0, at.row, at.rows);
  if (!qkv_NE.is_cpu())
    return composite::rotate(
        rows_NE.narrow(1, 0, heads * shape.head_dim).view({at.rows, heads, shape.head_dim}), cos, sin, back);
  with_type(qkv_NE, [&](auto zero) {
    using T = decltype(zero);
    using Angle = kernels::wide_t<T>;
    T* x = data<T>(rows_NE);
    if (back)
      kernels::rotate_back(x, x, data<Angle>(cos), data<Angle>(sin), at.rows, at.rows, heads, shape.head_dim,
                           row_size, row_size);
    else
      kernels::rotate(x, data<Angle>(cos), data<Angle>(sin), at.rows, at.rows, heads, shape.head_dim,
                      row_size);
  });
}

}  // namespace

void rotate(Executor& run, at::Tensor qkv_NE, const HeadShape& shape, const RotaryTable& table,
            const std::vector<RowRun>& rows, bool back) {
  const int64_t turned = (shape.query_heads + shape.key_heads) * shape.head_dim;
  const int64_t bytes = 2 * qkv_NE.size(0) * turned * static_cast<int64_t>(qkv_NE.element_size());
  run.run(back ? "rotary_backward" : "rotary", {0, bytes}, [&] {
    for (const RowRun& at : rows) rotate_run(qkv_NE, shape, table, at, back);
  });
}

AttentionOutput attention(Executor& run, const at::Tensor& qkv_NE, int64_t length, const HeadShape& shape,
                          const spec::Blocks& blocks) {
  const int64_t rows = qkv_NE.size(0);
  const AttentionOutput result{
      run.empty({rows, shape.q_size()}, Category::activations),
      run.empty({rows / length, shape.query_heads, length}, Category::activations, run.statistics_dtype())};
  const Cost cost{2 * product_flops(blocks, shape), bytes_of(qkv_NE)};
  run.run("attention", cost, [&] {
    if (qkv_NE.is_cpu()) return tiled_attention(result, qkv_NE, length, shape, blocks);
    composite::attention(result, qkv_NE, length, shape, blocks);
  });
  return result;
}

void attention_backward(Executor& run, at::Tensor qkv_NE, const AttentionOutput& saved,
                        const at::Tensor& dout_NQ, int64_t length, const HeadShape& shape,
                        const spec::Blocks& blocks) {
  // Scores again, then the gradients of scores, values, queries and keys: five products to the forward's two.
  const Cost cost{5 * product_flops(blocks, shape), 3 * bytes_of(qkv_NE)};
  run.run("attention_backward", cost, [&] {
    if (qkv_NE.is_cpu()) return tiled_attention_backward(qkv_NE, saved, dout_NQ, length, shape, blocks);
    composite::attention_backward(qkv_NE, saved, dout_NQ, length, shape, blocks);
  });
}

void attention_to(Executor& run, const AttentionOutput& result, const at::Tensor& qkv_NE,
                  const at::Tensor& kv_NK, int64_t length, const HeadShape& shape,
                  const spec::Blocks& blocks) {
  const Cost cost{2 * product_flops(blocks, shape), 2 * bytes_of(result.out_NQ) + bytes_of(kv_NK)};
  run.run("attention_to", cost, [&] {
    if (blocks.empty()) return;
    if (qkv_NE.is_cpu()) return tiled_attention_to(result, qkv_NE, kv_NK, length, shape, blocks);
    composite::attention_to(result, qkv_NE, kv_NK, length, shape, blocks);
  });
}

void attention_to_backward(Executor& run, at::Tensor dq_NQ, at::Tensor dkv_NK, const at::Tensor& qkv_NE,
                           const at::Tensor& kv_NK, const AttentionOutput& saved, const at::Tensor& dout_NQ,
                           int64_t length, const HeadShape& shape, const spec::Blocks& blocks) {
  const Cost cost{5 * product_flops(blocks, shape), 3 * bytes_of(dq_NQ) + 2 * bytes_of(kv_NK)};
  run.run("attention_to_backward", cost, [&] {
    if (blocks.empty()) return;
    if (qkv_NE.is_cpu())
      return tiled_attention_to_backward(dq_NQ, dkv_NK, qkv_NE, kv_NK, saved, dout_NQ, length, shape, blocks);
    composite::attention_to_backward(dq_NQ, dkv_NK, qkv_NE, kv_NK, saved, dout_NQ, length, shape, blocks);
  });
}

}  // namespace muster::nn
