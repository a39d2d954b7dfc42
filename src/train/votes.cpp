#include "train/votes.h"

#include <ATen/ATen.h>

namespace muster::train {
namespace {

constexpr int64_t kEntries = 5;

}  // namespace

// A ballot on its way. On a CPU it lies outside the allocators that the ledger counts: it lives through a
// step, and is none of the step's memory.
struct Votes::Round {
  at::Tensor tensor;
  comm::Pending pending;

  Round(const Ballot& ballot, at::Device device) {
    const auto entries = std::make_shared<std::array<int64_t, kEntries>>(
        std::array{ballot.stop_signal, ballot.save_now, ballot.failed, ballot.behind, ballot.durable});
    tensor = at::from_blob(
        entries->data(), {kEntries}, [entries](void*) {}, at::kLong);
    if (!device.is_cpu()) tensor = tensor.to(device);
  }
  void start(comm::Communicator& axis) { pending = axis.all_reduce(tensor, comm::Reduce::maximum); }
  Ballot result() const {
    const at::Tensor host = tensor.cpu();
    const auto* at = host.data_ptr<int64_t>();
    return {at[0], at[1], at[2], at[3], at[4]};
  }
};

Votes::Votes(comm::Groups& groups, at::Device device) : groups_(&groups), device_(device) {
  for (spec::Axis axis : spec::kWorldAxes)
    if (groups.on(axis).size() > 1) axes_.push_back(axis);
  under_way_.resize(axes_.size());
}

Votes::~Votes() = default;

std::optional<Ballot> Votes::exchange(const Ballot& own) {
  if (axes_.empty()) return own;
  std::optional<Ballot> agreed;
  for (size_t at = axes_.size(); at-- > 0;) {
    if (!under_way_[at]) continue;
    std::unique_ptr<Round> round = std::move(under_way_[at]);
    round->pending.wait();
    if (at + 1 == axes_.size()) {
      agreed = round->result();
    } else {
      round->start(groups_->on(axes_[at + 1]));
      under_way_[at + 1] = std::move(round);
    }
  }
  under_way_[0] = std::make_unique<Round>(own, device_);
  under_way_[0]->start(groups_->on(axes_[0]));
  return agreed;
}

Ballot Votes::agree(const Ballot& own) {
  drain();
  Round round(own, device_);
  for (spec::Axis axis : axes_) {
    round.start(groups_->on(axis));
    round.pending.wait();
  }
  return round.result();
}

void Votes::drain() {
  for (std::unique_ptr<Round>& round : under_way_)
    if (round) std::exchange(round, nullptr)->pending.wait();
}

}  // namespace muster::train
