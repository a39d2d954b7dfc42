#include "train/zero/values.h"

#include <algorithm>

#include "base/error.h"
#include "device/storage.h"

namespace muster::train {
std::vector<int64_t> uses_of(const std::vector<schedule::Action>& actions, int64_t units) {
  std::vector<int64_t> uses;
  for (const schedule::Action& action : actions) {
    if (action.kind == schedule::ActionKind::forward)
      for (int64_t unit = 0; unit < units; ++unit) uses.push_back(unit);
    if (action.kind == schedule::ActionKind::backward)
      for (int64_t unit = units - 2; unit > 0; --unit) uses.push_back(unit);
  }
  return uses;
}

Values::Values(const nn::ParameterStore& parameters, Ahead ahead)
    : parameters_(&parameters),
      ahead_(ahead),
      gathers_(parameters.buckets().size()),
      is_there_(parameters.buckets().size()) {}

void Values::begin(std::vector<int64_t> uses) {
  const nn::Sharding& sharding = parameters_->sharding();
  uses_ = std::move(uses);
  next_ = 0;
  if (!sharding.peers || sharding.values || !stale_) return;
  for (size_t bucket = gathers_.size(); bucket-- > 0;) gather(bucket);
  stale_ = false;
}

void Values::use(int64_t unit) {
  const nn::Sharding& sharding = parameters_->sharding();
  if (!sharding.peers) return;
  const size_t bucket = parameters_->bucket_of(unit);
  if (sharding.values) {
    MUSTER_CHECK(next_ < uses_.size() && uses_[next_] == unit, "unit {} is used out of order", unit);
    ++next_;
    fetch(bucket);
    // Behind it, so that the link does not rest while it is waited for.
    for (int64_t other : next_units(ahead_.units, unit)) fetch(parameters_->bucket_of(other));
  }
  gathers_[bucket].wait();
}

void Values::leave(int64_t unit) {
  if (!parameters_->sharding().values || stays(unit)) return;
  const size_t bucket = parameters_->bucket_of(unit);
  device::drop(parameters_->buckets()[bucket].value);
  is_there_[bucket] = false;
}

bool Values::stays(int64_t unit) const {
  const std::vector<int64_t> wanted = next_units(1 + ahead_.units);
  if (std::ranges::count(wanted, unit) > 0) return true;
  const auto first = uses_.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto next_forward = std::find(first, uses_.end(), 0);
  return ahead_.keeps_after_forward && std::find(first, next_forward, unit) != next_forward;
}

std::vector<int64_t> Values::next_units(int64_t count, std::optional<int64_t> but) const {
  std::vector<int64_t> units;
  for (size_t at = next_; at < uses_.size() && std::ssize(units) < count; ++at)
    if (uses_[at] != but && std::ranges::count(units, uses_[at]) == 0) units.push_back(uses_[at]);
  return units;
}

void Values::fetch(size_t bucket) {
  if (is_there_[bucket]) return;
  device::regrow(parameters_->buckets()[bucket].value, nn::Category::parameters);
  is_there_[bucket] = true;
  gather(bucket);
}

void Values::gather(size_t bucket) {
  const nn::Bucket& at = parameters_->buckets()[bucket];
  gathers_[bucket] = parameters_->sharding().peers->all_gather(at.value, at.value_piece);
}

}  // namespace muster::train
