#include "train/zero/reducer.h"

#include "base/error.h"
#include "device/storage.h"

namespace muster::train {

Reducer::Reducer(nn::ParameterStore& parameters, comm::Communicator& copies, nn::Executor& run,
                 bool each_micro_batch)
    : parameters_(&parameters),
      copies_(&copies),
      run_(&run),
      each_micro_batch_(each_micro_batch && parameters.sharding().gradients),
      is_there_(parameters.buckets().size()),
      has_sum_(parameters.buckets().size()) {}

void Reducer::use(int64_t unit) {
  if (!parameters_->sharding().gradients) return;
  const size_t bucket = parameters_->bucket_of(unit);
  // Backward goes through the buckets in order: this is the next one's, and memory is needed.
  if (flight_ && bucket <= flight_->bucket) settle();
  if (is_there_[bucket]) return;
  device::regrow(parameters_->buckets()[bucket].gradient, nn::Category::gradients);
  is_there_[bucket] = true;
}

void Reducer::unit_done(int64_t unit, bool last) {
  const size_t at = parameters_->bucket_of(unit);
  const nn::Bucket& bucket = parameters_->buckets()[at];
  const nn::Sharding& sharding = parameters_->sharding();
  if (unit != bucket.first_unit || (!last && !each_micro_batch_)) return;
  parameters_->check_written(bucket);
  if (!sharding.peers) return sum_over_copies(at, bucket.gradient);
  settle();
  scatter(at, last);
}

void Reducer::scatter(size_t at, bool last) {
  const nn::Bucket& bucket = parameters_->buckets()[at];
  const bool adds = has_sum_[at];
  Flight flight{at, last, {}, {}};
  if (adds)
    flight.sum =
        run_->empty(bucket.gradient_piece.sizes(), nn::Category::temporary, parameters_->gradient_format());
  flight.pending = parameters_->sharding().peers->reduce_scatter(adds ? flight.sum : bucket.gradient_piece,
                                                                 bucket.gradient);
  has_sum_[at] = true;
  flight_ = std::move(flight);
}

void Reducer::settle() {
  if (!flight_) return;
  Flight flight = std::move(*flight_);
  flight_.reset();
  flight.pending.wait();
  flight.pending = {};
  const nn::Bucket& bucket = parameters_->buckets()[flight.bucket];
  if (flight.sum.defined())
    run_->run("add", {0, 3 * static_cast<int64_t>(flight.sum.nbytes())},
              [&] { at::Tensor(bucket.gradient_piece).add_(flight.sum); });
  if (parameters_->sharding().gradients) {
    device::drop(bucket.gradient);
    is_there_[flight.bucket] = false;
    parameters_->forget(bucket);
  }
  if (flight.last) sum_over_copies(flight.bucket, bucket.gradient_piece);
}

void Reducer::sum_over_copies(size_t bucket, at::Tensor gradient) {
  MUSTER_CHECK(bucket == pending_.size(), "bucket {} is summed after {}", bucket, pending_.size());
  pending_.push_back(copies_->all_reduce(std::move(gradient)));
}

void Reducer::finish() {
  settle();
  MUSTER_CHECK(pending_.size() == parameters_->buckets().size(), "{} of {} buckets were reduced",
               pending_.size(), parameters_->buckets().size());
  for (comm::Pending& pending : pending_) pending.wait();
  pending_.clear();
  has_sum_.assign(has_sum_.size(), false);
}

}  // namespace muster::train
