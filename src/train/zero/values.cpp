#include "train/zero/values.h"

#include <algorithm>

#include "base/error.h"
#include "device/storage.h"

namespace muster::train {
namespace {

// How many of the next uses a unit is fetched ahead of or kept for.
constexpr size_t kAhead = 1, kKept = 1 + kAhead;

}  // namespace

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

Values::Values(const nn::ParameterStore& parameters)
    : parameters_(&parameters),
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
  }
  gathers_[bucket].wait();
  if (sharding.values)
    for (size_t at = next_; at < std::min(next_ + kAhead, uses_.size()); ++at)
      fetch(parameters_->bucket_of(uses_[at]));
}

void Values::leave(int64_t unit) {
  if (!parameters_->sharding().values || is_soon(unit)) return;
  const size_t bucket = parameters_->bucket_of(unit);
  device::drop(parameters_->buckets()[bucket].value);
  is_there_[bucket] = false;
}

bool Values::is_soon(int64_t unit) const {
  const auto first = uses_.begin() + static_cast<std::ptrdiff_t>(next_);
  const auto last = uses_.begin() + static_cast<std::ptrdiff_t>(std::min(next_ + kKept, uses_.size()));
  return std::find(first, last, unit) != last;
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
