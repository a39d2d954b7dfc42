#include "nn/ops/norm_of_gradient.h"

#include <ATen/ops/linalg_vector_norm.h>

#include "nn/kernels/kernels.h"
#include "nn/ops/dispatch.h"

namespace muster::nn {
namespace {

double squares_of(const at::Tensor& x) {
  if (!x.is_cpu())
    return at::linalg_vector_norm(x, 2, std::nullopt, false, at::kDouble).square().item<double>();
  double sum = 0;
  with_type(x, [&](auto zero) { sum = kernels::sum_of_squares(data<decltype(zero)>(x), x.numel()); });
  return sum;
}

struct Squares {
  double alike = 0, in_parts = 0;  // what the tensor group's ranks hold alike, and in parts
};

Squares of_own(Executor& run, const TensorGroup& group, const ParameterStore& parameters) {
  Squares sum{run.is_meta() ? 1.0 : 0.0, 0};
  for (const Segment& segment : parameters.segments()) {
    // Of those that hold the same slice, the first counts it.
    if (segment.is_split && group.rank() % segment.copies != 0) continue;
    run.run("sum_of_squares", {0, static_cast<int64_t>(segment.gradient.nbytes())},
            [&] { (segment.is_split ? sum.in_parts : sum.alike) += squares_of(segment.gradient); });
  }
  return sum;
}

// Each peer holds other elements, some of them none.
void add_over_peers(Executor& run, comm::Communicator& peers, Squares& own) {
  const at::Tensor sums = run.empty({2}, Category::temporary, at::kDouble);
  run.run("fill", {}, [&] {
    sums.narrow(0, 0, 1).fill_(own.alike);
    sums.narrow(0, 1, 1).fill_(own.in_parts);
  });
  peers.all_reduce(sums).wait();
  run.run("read", {}, [&] {
    const at::Tensor host = sums.cpu();
    own = {host.data_ptr<double>()[0], host.data_ptr<double>()[1]};
  });
}

double over_group(Executor& run, const TensorGroup& group, double part) {
  if (!group.is_split()) return part;
  const at::Tensor sum = run.empty({1}, Category::temporary, at::kDouble);
  run.run("fill", {}, [&] { sum.fill_(part); });
  group.all_reduce(sum).wait();
  run.run("read", {}, [&] { part = sum.item<double>(); });
  return part;
}

}  // namespace

double sum_of_squares(Executor& run, const TensorGroup& group, const ParameterStore& parameters) {
  Squares sum = of_own(run, group, parameters);
  if (comm::Communicator* peers = parameters.sharding().peers) add_over_peers(run, *peers, sum);
  return sum.alike + over_group(run, group, sum.in_parts);
}

}  // namespace muster::nn
