#include "nn/ops/embedding.h"

#include "nn/gathered_rows.h"
#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"

namespace muster::nn {
namespace {

// The tokens that this rank has, zeros for the others; and `positions` where they are given.
void embed_part(Executor& run, const TensorGroup& group, at::Tensor out_NH, const at::Tensor& ids_N,
                const Weight& token, const at::Tensor& positions, int64_t length) {
  const int64_t ids_here = token.value.size(0), first_id = group.rank() * ids_here;
  run.run("embedding", {0, 2 * static_cast<int64_t>(out_NH.nbytes())}, [&] {
    if (!out_NH.is_cpu()) return composite::embed(out_NH, token.value, positions, ids_N, length, first_id);
    with_type(out_NH, [&](auto zero) {
      using T = decltype(zero);
      kernels::embed(data<T>(out_NH), data<T>(token.value), data_or_null<T>(positions), data<int32_t>(ids_N),
                     out_NH.size(0), length, out_NH.size(1), first_id, ids_here);
    });
  });
}

// Calls body(row, position, count) for runs of rows whose positions follow each other; row 0 is row
// `first_row` of the micro-batch.
template <class Body>
void for_each_position_run(int64_t first_row, int64_t rows, int64_t length, Body&& body) {
  for (int64_t row = 0; row < rows;) {
    const int64_t position = (first_row + row) % length, count = std::min(length - position, rows - row);
    body(row, position, count);
    row += count;
  }
}

void add_positions(Executor& run, const TensorGroup& group, const at::Tensor& x_MH, const Weight& position,
                   int64_t length) {
  const int64_t rows = x_MH.size(0);
  run.run("add_positions", {0, 3 * static_cast<int64_t>(x_MH.nbytes())}, [&] {
    for_each_position_run(group.first_row(rows), rows, length, [&](int64_t row, int64_t at, int64_t count) {
      x_MH.narrow(0, row, count).add_(position.value.narrow(0, at, count));
    });
  });
}

void token_backward(Executor& run, const TensorGroup& group, const at::Tensor& dy_NH, const at::Tensor& ids_N,
                    Weight& token) {
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
}

// Positions get the sums of their rows' gradients; those that no row here has get none.
void position_backward(Executor& run, const TensorGroup& group, const at::Tensor& dy_MH, Weight& position,
                       int64_t length) {
  const bool add = position.accumulate();
  const int64_t rows = dy_MH.size(0);
  run.run("sum_rows", {0, static_cast<int64_t>(dy_MH.nbytes())}, [&] {
    if (!add) position.gradient.zero_();
    for_each_position_run(group.first_row(rows), rows, length, [&](int64_t row, int64_t at, int64_t count) {
      position.gradient.narrow(0, at, count).add_(dy_MH.narrow(0, row, count));
    });
  });
}

}  // namespace

void embed(Executor& run, const TensorGroup& group, at::Tensor out_MH, const at::Tensor& ids_N,
           const Weight& token, const Weight* position, int64_t length) {
  if (!group.shares_rows()) {
    // Positions enter the group's sum once.
    const at::Tensor positions = position && group.rank() == 0 ? position->value : at::Tensor();
    embed_part(run, group, out_MH, ids_N, token, positions, length);
    group.all_reduce(out_MH).wait();
    return;
  }
  const at::Tensor out_NH = run.empty({ids_N.size(0), out_MH.size(1)}, Category::temporary);
  embed_part(run, group, out_NH, ids_N, token, {}, length);
  group.reduce_scatter(out_MH, out_NH).wait();
  if (position) add_positions(run, group, out_MH, *position, length);
}

void embed_backward(Executor& run, const TensorGroup& group, const at::Tensor& dy_MH, const at::Tensor& ids_N,
                    Weight& token, Weight* position, int64_t length) {
  GatheredRows dy(run, group, dy_MH);
  if (position) position_backward(run, group, dy.own(), *position, length);
  token_backward(run, group, dy.whole(), ids_N, token);
}

}  // namespace muster::nn
