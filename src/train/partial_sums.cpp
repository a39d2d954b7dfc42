#include "train/partial_sums.h"

#include "base/error.h"
#include "spec/mesh/local_shape.h"
#include "spec/model/gradient_placement.h"

namespace muster::train {

PartialSums::PartialSums(const nn::ParameterStore& parameters, const spec::LayoutConfig& layout,
                         const spec::Mesh& mesh, comm::Communicator& tensor)
    : tensor_(&tensor), format_(parameters.gradient_format()) {
  for (const spec::ParameterRow& row : parameters.table().rows()) {
    if (!spec::is_partial_over_tensor(row, layout)) continue;
    const int64_t copies = spec::copies(row, mesh, spec::Axis::tensor);
    const bool is_whole = copies == tensor.size();
    (is_whole ? whole_ : shared_).add(parameters.gradient_piece(row));
    if (is_whole) continue;
    MUSTER_CHECK(sharers_ == 1 || sharers_ == copies, "{} is shared by {} ranks, others by {}", row.name,
                 copies, sharers_);
    sharers_ = copies;
  }
}

void PartialSums::run(nn::Executor& run) {
  run.set_phase("reduce");
  run.set_place("partial sums");
  sum_over_axis(run);
  sum_over_neighbours(run);
}

void PartialSums::sum_over_axis(nn::Executor& run) {
  if (whole_.elements == 0) return;
  const at::Tensor flat = run.empty({whole_.elements}, nn::Category::communication, format_);
  whole_.copy_to(run, flat);
  tensor_->all_reduce(flat).wait();
  whole_.copy_from(run, flat);
}

void PartialSums::sum_over_neighbours(nn::Executor& run) {
  if (shared_.elements == 0) return;
  const int64_t slice = (shared_.elements + sharers_ - 1) / sharers_;
  const at::Tensor flat = run.empty({sharers_, slice}, nn::Category::communication, format_),
                   received = run.empty({sharers_, slice}, nn::Category::communication, format_);
  shared_.copy_to(run, flat.view({-1}));
  exchange(received, flat, slice).wait();
  // In the order of ranks, on one rank a slice: all sharers end with the same bits.
  run.run("sum", {0, 2 * static_cast<int64_t>(flat.nbytes())}, [&] {
    // Of narrow formats in fp32.
    at::Tensor sum = received[0].to(at::promote_types(format_, at::kFloat));
    for (int64_t rank = 1; rank < sharers_; ++rank) sum.add_(received[rank]);
    flat.copy_(sum.expand_as(flat));
  });
  exchange(received, flat, slice).wait();
  shared_.copy_from(run, received.view({-1}));
}

comm::Pending PartialSums::exchange(at::Tensor out, at::Tensor in, int64_t count) {
  const int64_t first = tensor_->rank() / sharers_ * sharers_;
  std::vector<int64_t> counts(static_cast<size_t>(tensor_->size()), 0);
  for (int64_t rank = first; rank < first + sharers_; ++rank) counts[static_cast<size_t>(rank)] = count;
  return tensor_->all_to_all(out.view({-1}), in.view({-1}), counts, counts);
}

void PartialSums::Joined::add(const at::Tensor& gradient) {
  gradients.push_back(gradient.view({-1}));
  elements += gradient.numel();
}

void PartialSums::Joined::copy_to(nn::Executor& run, const at::Tensor& flat) const {
  run.run("join", {0, 2 * static_cast<int64_t>(flat.nbytes())}, [&] {
    int64_t at = 0;
    for (const at::Tensor& gradient : gradients) {
      flat.narrow(0, at, gradient.numel()).copy_(gradient);
      at += gradient.numel();
    }
    flat.narrow(0, at, flat.numel() - at).zero_();
  });
}

void PartialSums::Joined::copy_from(nn::Executor& run, const at::Tensor& flat) const {
  run.run("join", {0, 2 * static_cast<int64_t>(flat.nbytes())}, [&] {
    int64_t at = 0;
    for (const at::Tensor& gradient : gradients) {
      gradient.copy_(flat.narrow(0, at, gradient.numel()));
      at += gradient.numel();
    }
  });
}

}  // namespace muster::train
