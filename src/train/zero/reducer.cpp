#include "train/zero/reducer.h"

#include "base/error.h"

namespace muster::train {

void Reducer::unit_done(int64_t unit) {
  const auto& buckets = parameters_->buckets();
  while (pending_.size() < buckets.size() && buckets[pending_.size()].first_unit >= unit)
    pending_.push_back(data_->all_reduce(buckets[pending_.size()].gradient));
}

void Reducer::finish() {
  MUSTER_CHECK(pending_.size() == parameters_->buckets().size(), "{} of {} buckets were reduced",
               pending_.size(), parameters_->buckets().size());
  parameters_->check_all_written();
  for (comm::Pending& pending : pending_) pending.wait();
  pending_.clear();
}

}  // namespace muster::train
