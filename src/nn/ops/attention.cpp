#include "nn/ops/attention.h"

#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"
#include "nn/ops/tiled_attention.h"

namespace muster::nn {
namespace {

// FLOPs of one of the two products of causal attention: a query at position s meets s + 1 keys.
double causal_flops(int64_t rows, int64_t length, const HeadShape& shape) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(length + 1) / 2.0 *
         static_cast<double>(shape.q_size());
}

at::ScalarType statistics_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace

void rotate(Executor& run, at::Tensor qkv_NE, const HeadShape& shape, const RotaryTable& table, bool back) {
  const int64_t heads = shape.query_heads + shape.key_heads, rows = qkv_NE.size(0), row_size = qkv_NE.size(1);
  const int64_t bytes = 2 * rows * heads * shape.head_dim * static_cast<int64_t>(qkv_NE.element_size());
  run.run(back ? "rotary_backward" : "rotary", {0, bytes}, [&] {
    if (!qkv_NE.is_cpu())
      return composite::rotate(
          qkv_NE.narrow(1, 0, heads * shape.head_dim).view({rows, heads, shape.head_dim}), table.cos_LD,
          table.sin_LD, back);
    with_type(qkv_NE, [&](auto zero) {
      using T = decltype(zero);
      T* x = data<T>(qkv_NE);
      const T *cos = data<T>(table.cos_LD), *sin = data<T>(table.sin_LD);
      const int64_t length = table.cos_LD.size(0);
      if (back)
        kernels::rotate_back(x, x, cos, sin, rows, length, heads, shape.head_dim, row_size, row_size);
      else
        kernels::rotate(x, cos, sin, rows, length, heads, shape.head_dim, row_size);
    });
  });
}

AttentionOutput attention(Executor& run, const at::Tensor& qkv_NE, int64_t length, const HeadShape& shape) {
  const int64_t rows = qkv_NE.size(0);
  const AttentionOutput result{
      run.empty({rows, shape.q_size()}, Category::activations),
      run.empty({rows / length, shape.query_heads, length}, Category::activations, statistics_type(qkv_NE))};
  const Cost cost{2 * causal_flops(rows, length, shape), static_cast<int64_t>(qkv_NE.nbytes())};
  run.run("attention", cost, [&] {
    if (qkv_NE.is_cpu()) return tiled_attention(result, qkv_NE, length, shape);
    composite::attention(result, qkv_NE, length, shape);
  });
  return result;
}

void attention_backward(Executor& run, at::Tensor qkv_NE, const AttentionOutput& saved,
                        const at::Tensor& dout_NQ, int64_t length, const HeadShape& shape,
                        const RotaryTable& table) {
  // Scores again, then the gradients of scores, values, queries and keys: five products to the forward's two.
  const Cost cost{5 * causal_flops(qkv_NE.size(0), length, shape), 3 * static_cast<int64_t>(qkv_NE.nbytes())};
  run.run("attention_backward", cost, [&] {
    if (qkv_NE.is_cpu()) return tiled_attention_backward(qkv_NE, saved, dout_NQ, length, shape);
    composite::attention_backward(qkv_NE, saved, dout_NQ, length, shape);
  });
  if (table.defined()) rotate(run, qkv_NE, shape, table, /*back=*/true);
}

}  // namespace muster::nn
