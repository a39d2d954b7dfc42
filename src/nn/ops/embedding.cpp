#include "nn/ops/embedding.h"

#include "nn/kernels/kernels.h"
#include "nn/ops/composite.h"
#include "nn/ops/dispatch.h"

namespace muster::nn {
namespace {

// The first `length` rows of the position table get the sums of their tokens' gradients; the others none.
void position_backward(Executor& run, const at::Tensor& dy_NH, Weight& position, int64_t length) {
  const bool add = position.accumulate();
  at::Tensor used = position.gradient.narrow(0, 0, length);
  const int64_t rest = position.gradient.size(0) - length;
  run.run("sum_rows", {0, static_cast<int64_t>(dy_NH.nbytes())}, [&] {
    if (!add && rest > 0) position.gradient.narrow(0, length, rest).zero_();
    if (!dy_NH.is_cpu()) return composite::sum_rows(used, add, dy_NH, length);
    with_type(dy_NH, [&](auto zero) {
      using T = decltype(zero);
      kernels::sum_rows(data<T>(used), add, data<T>(dy_NH), dy_NH.size(0), dy_NH.size(1), length);
    });
  });
}

}  // namespace

void embed(Executor& run, const TensorGroup& group, at::Tensor out_NH, const at::Tensor& ids_N,
           const Weight& token, const Weight* position, int64_t length) {
  // Positions enter the group's sum once.
  const at::Tensor positions = position && group.rank() == 0 ? position->value : at::Tensor();
  const int64_t ids_here = token.value.size(0), first_id = group.rank() * ids_here;
  run.run("embedding", {0, 2 * static_cast<int64_t>(out_NH.nbytes())}, [&] {
    if (!out_NH.is_cpu()) return composite::embed(out_NH, token.value, positions, ids_N, length, first_id);
    with_type(out_NH, [&](auto zero) {
      using T = decltype(zero);
      kernels::embed(data<T>(out_NH), data<T>(token.value), data_or_null<T>(positions), data<int32_t>(ids_N),
                     out_NH.size(0), length, out_NH.size(1), first_id, ids_here);
    });
  });
  group.all_reduce(out_NH).wait();
}

void embed_backward(Executor& run, const TensorGroup& group, const at::Tensor& dy_NH, const at::Tensor& ids_N,
                    Weight& token, Weight* position, int64_t length) {
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
  if (position) position_backward(run, dy_NH, *position, length);
}

}  // namespace muster::nn
