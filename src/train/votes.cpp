#include "train/votes.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace muster::train {
namespace {

using Entries = std::array<int64_t, 5>;

at::Tensor uncounted(int64_t ballots) {
  const auto memory = std::make_shared<std::vector<Entries>>(static_cast<size_t>(ballots));
  return at::from_blob(
      memory->data(), {ballots * static_cast<int64_t>(Entries().size())}, [memory](void*) {}, at::kLong);
}

}  // namespace

// A ballot on its way over an axis, and room for everyone's there: gathered, and counted at home. On a CPU
// both lie outside the allocators that the ledger counts: they live through a step, and are none of its
// memory.
struct Votes::Round {
  Entries entries;
  at::Tensor own, all;
  comm::Pending pending;

  explicit Round(const Ballot& ballot)
      : entries{ballot.stop_signal, ballot.save_now, ballot.failed, ballot.behind, ballot.durable} {}

  void start(comm::Communicator& axis, at::Device device) {
    own = uncounted(1);
    std::ranges::copy(entries, own.data_ptr<int64_t>());
    own = own.to(device);
    all = uncounted(axis.size()).to(device);
    pending = axis.all_gather(all, own);
  }
  void finish() {
    pending.wait();
    const at::Tensor host = all.cpu();
    const auto* at = host.data_ptr<int64_t>();
    for (int64_t number = 0; number < host.numel(); ++number) {
      int64_t& entry = entries[static_cast<size_t>(number) % entries.size()];
      entry = std::max(entry, at[number]);
    }
  }
  Ballot ballot() const { return {entries[0], entries[1], entries[2], entries[3], entries[4]}; }
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
    round->finish();
    if (at + 1 == axes_.size()) {
      agreed = round->ballot();
    } else {
      round->start(groups_->on(axes_[at + 1]), device_);
      under_way_[at + 1] = std::move(round);
    }
  }
  under_way_[0] = std::make_unique<Round>(own);
  under_way_[0]->start(groups_->on(axes_[0]), device_);
  return agreed;
}

Ballot Votes::agree(const Ballot& own) {
  drain();
  Round round(own);
  for (spec::Axis axis : axes_) {
    round.start(groups_->on(axis), device_);
    round.finish();
  }
  return round.ballot();
}

void Votes::drain() {
  for (std::unique_ptr<Round>& round : under_way_)
    if (round) std::exchange(round, nullptr)->pending.wait();
}

}  // namespace muster::train
