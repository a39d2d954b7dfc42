#include "nn/ops/embedding.h"

#include "nn/gathered_rows.h"
#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"
#include "nn/wide.h"

namespace muster::nn {
namespace {

// The tokens that this rank has, zeros for the others.
void embed_part(Executor& run, const TensorGroup& group, at::Tensor out_NH, const at::Tensor& ids_N,
                const Weight& token) {
  const int64_t ids_here = token.value.size(0), first_id = group.rank() * ids_here;
  run.run("embedding", {0, 2 * static_cast<int64_t>(out_NH.nbytes())}, [&] {
    if (!out_NH.is_cpu()) return composite::embed(out_NH, token.value, ids_N, first_id);
    with_type(out_NH, [&](auto zero) {
      using T = decltype(zero);
      kernels::embed(data<T>(out_NH), data<T>(token.value), data<int32_t>(ids_N), out_NH.size(0),
                     out_NH.size(1), first_id, ids_here);
    });
  });
}

void add_positions(Executor& run, const at::Tensor& x_MH, const Weight& position,
                   const std::vector<RowRun>& rows) {
  run.run("add_positions", {0, 3 * static_cast<int64_t>(x_MH.nbytes())}, [&] {
    for (const RowRun& at : rows)
      x_MH.narrow(0, at.row, at.rows).add_(position.value.narrow(0, at.position, at.rows));
  });
}

void token_backward(Executor& run, const TensorGroup& group, const at::Tensor& dy_NH, const at::Tensor& ids_N,
                    Weight& token) {
  const bool add = token.accumulate();
  const int64_t ids_here = token.value.size(0), first_id = group.rank() * ids_here;
  run.run("embedding_backward", {0, 2 * static_cast<int64_t>(dy_NH.nbytes())}, [&] {
    if (!add) token.gradient.zero_();
    if (!dy_NH.is_cpu()) return composite::embed_backward(token.gradient, dy_NH, ids_N, first_id);
    with_types(dy_NH, token.gradient, [&](auto zero, auto zero_gradient) {
      using T = decltype(zero);
      kernels::embed_backward(data<decltype(zero_gradient)>(token.gradient), data<T>(dy_NH),
                              data<int32_t>(ids_N), dy_NH.size(0), dy_NH.size(1), first_id, ids_here);
    });
  });
}

// Positions get the sums of their rows' gradients; those that no row here has get none.
void position_backward(Executor& run, const at::Tensor& dy_MH, Weight& position,
                       const std::vector<RowRun>& rows) {
  const bool add = position.accumulate();
  run.run("sum_rows", {0, static_cast<int64_t>(dy_MH.nbytes())}, [&] {
    in_wide(position.gradient, [&](const at::Tensor& sums) {
      if (!add) sums.zero_();
      for (const RowRun& at : rows)
        sums.narrow(0, at.position, at.rows).add_(dy_MH.narrow(0, at.row, at.rows));
    });
  });
}

}  // namespace

void embed(Executor& run, const TensorGroup& group, at::Tensor out_MH, const at::Tensor& ids_N,
           const Weight& token, const Weight* position, const Positions& positions) {
  if (!group.shares_rows()) {
    embed_part(run, group, out_MH, ids_N, token);
    // Positions enter the group's sum once.
    if (position && group.rank() == 0) add_positions(run, out_MH, *position, positions.stream);
    group.all_reduce(out_MH).wait();
    return;
  }
  const at::Tensor out_NH = run.empty({ids_N.size(0), out_MH.size(1)}, Category::temporary);
  embed_part(run, group, out_NH, ids_N, token);
  group.reduce_scatter(out_MH, out_NH).wait();
  if (position) add_positions(run, out_MH, *position, positions.stream);
}

void embed_backward(Executor& run, const TensorGroup& group, const at::Tensor& dy_MH, const at::Tensor& ids_N,
                    Weight& token, Weight* position, const Positions& positions) {
  GatheredRows dy(run, group, dy_MH);
  if (position) position_backward(run, dy.own(), *position, positions.stream);
  token_backward(run, group, dy.whole(), ids_N, token);
}

}  // namespace muster::nn
