// Whole logical tensors from the pieces that ranks own.
#include "spec/mesh/local_shape.h"
#include "train/rank.h"

namespace muster::train {

// This rank's part of a row from its peers' pieces, each told by its owner.
at::Tensor Rank::part(const spec::ParameterRow& row, const at::Tensor& piece) {
  const std::vector<int64_t> shape = spec::local_shape(row, mesh_);
  comm::Communicator* peers = parameters_->sharding().peers;
  if (!peers) return piece.view(shape);
  const at::Tensor part = at::empty(shape, piece.options());
  for (int64_t peer = 0; peer < peers->size(); ++peer) {
    const nn::FlatRange range = parameters_->owned(row, peer);
    if (range.size == 0) continue;
    const at::Tensor there = part.view({-1}).narrow(0, range.first, range.size);
    if (peer == peers->rank()) there.copy_(piece);
    peers->broadcast(there, peer).wait();
  }
  return part;
}

at::Tensor Rank::whole(const spec::ParameterRow& row, const at::Tensor& piece) {
  const at::Tensor own = part(row, piece);
  if (!spec::is_split(row, mesh_, spec::Axis::tensor)) return own;
  comm::Communicator& peers = groups_.on(spec::Axis::tensor);
  std::vector<int64_t> shape = own.sizes().vec();
  shape.insert(shape.begin(), peers.size());
  const at::Tensor parts = at::empty(shape, own.options());
  peers.all_gather(parts.view({-1}), own.contiguous().view({-1})).wait();
  at::Tensor whole = at::empty(row.shape, own.options());
  for (int64_t peer = 0; peer < peers.size(); ++peer) {
    const spec::LocalPart place = spec::local_part(row, mesh_, peers.ranks()[static_cast<size_t>(peer)]);
    for (const spec::IndexRun& run : place.runs)
      whole.narrow(place.dim, run.global, run.size).copy_(parts[peer].narrow(place.dim, run.local, run.size));
  }
  // Where others hold the same slice, this rank's own view of the whole has its own.
  const spec::LocalPart here = spec::local_part(row, mesh_, number_);
  for (const spec::IndexRun& run : here.runs)
    whole.narrow(here.dim, run.global, run.size).copy_(own.narrow(here.dim, run.local, run.size));
  return whole;
}

}  // namespace muster::train
