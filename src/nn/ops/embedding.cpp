#include "nn/ops/embedding.h"

#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"

namespace muster::nn {
namespace {

// Rows of the position table get the sums of their tokens' gradients; those of no token here none.
void position_backward(Executor& run, const at::Tensor& dy_NH, Weight& position,
                       const std::vector<RowRun>& rows) {
  const bool add = position.accumulate();
  run.run("sum_rows", {0, static_cast<int64_t>(dy_NH.nbytes())}, [&] {
    if (!add) position.gradient.zero_();
    for (const RowRun& at : rows)
      position.gradient.narrow(0, at.position, at.rows).add_(dy_NH.narrow(0, at.row, at.rows));
  });
}

void add_positions(Executor& run, at::Tensor out_NH, const at::Tensor& positions_LH,
                   const std::vector<RowRun>& rows) {
  run.run("add_positions", {0, 3 * static_cast<int64_t>(out_NH.nbytes())}, [&] {
    for (const RowRun& at : rows)
      out_NH.narrow(0, at.row, at.rows).add_(positions_LH.narrow(0, at.position, at.rows));
  });
}

}  // namespace

void embed(Executor& run, const TensorGroup& group, at::Tensor out_NH, const at::Tensor& ids_N,
           const Weight& token, const Weight* position, const std::vector<RowRun>& rows) {
  const int64_t ids_here = token.value.size(0), first_id = group.rank() * ids_here;
  run.run("embedding", {0, 2 * static_cast<int64_t>(out_NH.nbytes())}, [&] {
    if (!out_NH.is_cpu()) return composite::embed(out_NH, token.value, ids_N, first_id);
    with_type(out_NH, [&](auto zero) {
      using T = decltype(zero);
      kernels::embed(data<T>(out_NH), data<T>(token.value), data<int32_t>(ids_N), out_NH.size(0),
                     out_NH.size(1), first_id, ids_here);
    });
  });
  // Positions enter the group's sum once.
  if (position && group.rank() == 0) add_positions(run, out_NH, position->value, rows);
  group.all_reduce(out_NH).wait();
}

void embed_backward(Executor& run, const TensorGroup& group, const at::Tensor& dy_NH, const at::Tensor& ids_N,
                    Weight& token, Weight* position, const std::vector<RowRun>& rows) {
  const bool add = token.accumulate();
  const int64_t ids_here = token.value.size(0), first_id = group.rank() * ids_here;
  run.run("embedding_backward", {0, 2 * static_cast<int64_t>(dy_NH.nbytes())}, [&] {
    if (!add) token.gradient.zero_();
    if (!dy_NH.is_cpu()) return composite::embed_backward(token.gradient, dy_NH, ids_N, first_id);
    with_type(dy_NH, [&](auto zero) {
      using T = decltype(zero);
      kernels::embed_backward(data<T>(token.gradient), data<T>(dy_NH), data<int32_t>(ids_N), dy_NH.size(0),
                              dy_NH.size(1), first_id, ids_here);
    });
  });
  if (position) position_backward(run, dy_NH, *position, rows);
}

}  // namespace muster::nn
