// Whole logical tensors from the parts that ranks hold.
#include "spec/mesh/local_shape.h"
#include "train/rank.h"

namespace muster::train {

at::Tensor Rank::gather(const spec::ParameterRow& row, const at::Tensor& part) {
  if (!spec::is_split(row, mesh_, spec::Axis::tensor)) return part;
  comm::Communicator& peers = groups_.on(spec::Axis::tensor);
  std::vector<int64_t> shape = part.sizes().vec();
  shape.insert(shape.begin(), peers.size());
  const at::Tensor parts = at::empty(shape, part.options());
  peers.all_gather(parts.view({-1}), part.contiguous().view({-1})).wait();
  at::Tensor whole = at::empty(row.shape, part.options());
  for (int64_t peer = 0; peer < peers.size(); ++peer) {
    const spec::LocalPart place = spec::local_part(row, mesh_, peers.ranks()[static_cast<size_t>(peer)]);
    for (const spec::IndexRun& run : place.runs)
      whole.narrow(place.dim, run.global, run.size).copy_(parts[peer].narrow(place.dim, run.local, run.size));
  }
  // Where others hold the same slice, this rank's own view of the whole has its own.
  const spec::LocalPart own = spec::local_part(row, mesh_, number_);
  for (const spec::IndexRun& run : own.runs)
    whole.narrow(own.dim, run.global, run.size).copy_(part.narrow(own.dim, run.local, run.size));
  return whole;
}

}  // namespace muster::train
