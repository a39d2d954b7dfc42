#include "comm/in_place.h"

namespace muster::comm {

namespace {

// Far from the tags that callers give to sends of their own; between two ranks messages of one tag arrive in
// the order in which they were sent.
constexpr int kGather = 1 << 30, kScatter = kGather + 1;

}  // namespace

c10::intrusive_ptr<c10d::Work> gather_in_place(c10d::Backend& backend, const at::Tensor& out,
                                               const at::Tensor& in, std::chrono::milliseconds timeout) {
  const int size = backend.getSize(), rank = backend.getRank();
  const at::Tensor parts = out.view({size, -1});
  auto together = c10::make_intrusive<Together>(timeout);
  std::vector<at::Tensor> mine{in.view({-1})};
  // Ranks start with their next neighbour, so that no one is everybody's first.
  for (int step = 1; step < size; ++step) {
    std::vector<at::Tensor> part{parts[(rank + size - step) % size]};
    together->add(backend.recv(part, (rank + size - step) % size, kGather));
    together->add(backend.send(mine, (rank + step) % size, kGather));
  }
  at::Tensor place = parts[rank];
  if (place.data_ptr() != in.data_ptr()) place.copy_(mine.front());
  return together;
}

ScatterInPlace::ScatterInPlace(c10d::Backend& backend, at::Tensor out, at::Tensor in,
                               std::chrono::milliseconds timeout)
    : backend_(&backend),
      out_(std::move(out)),
      in_(std::move(in)),
      missing_(in_.size(0)),
      together_(c10::make_intrusive<Together>(timeout)) {
  for (int peer = 0; peer < backend.getSize(); ++peer) {
    if (peer == backend.getRank()) continue;
    std::vector<at::Tensor> part{out_[peer]};
    together_->add(backend.recv(part, peer, kScatter));
  }
}

c10::intrusive_ptr<c10d::Work> ScatterInPlace::operator()(int64_t rank) {
  std::vector<at::Tensor> part{in_[rank]};
  if (rank == backend_->getRank())
    out_[rank].copy_(part.front());
  else
    together_->add(backend_->send(part, static_cast<int>(rank), kScatter));
  if (--missing_ > 0) return {};
  return std::move(together_);
}

}  // namespace muster::comm
