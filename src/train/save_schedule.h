// When a checkpoint is due: every so many steps, every so many minutes, or after the interval that loses
// least.
#pragma once
#include <optional>
#include <string>

#include "spec/config/job.h"

namespace muster::train {

// What a run has seen of interruptions so far.
struct Interruptions {
  int64_t count = 0;  // starts of the run after its first
  double hours = 0;   // since its first
};

// The clock is one rank's; all ranks agree on its wish by vote (votes.h).
class SaveSchedule {
 public:
  SaveSchedule(const spec::CheckpointConfig& config, Interruptions seen, double now_seconds)
      : config_(config), seen_(seen), last_save_(now_seconds), start_(now_seconds) {}

  // By the step's number: the same on every rank, without a word.
  bool is_due(int64_t step) const { return config_.every > 0 && step % config_.every == 0; }
  // By the clock, after a step. With `adaptive` the first one comes after three steps: it tells the cost.
  bool is_time(double now_seconds);
  // A save was begun, and training stood still for `stall_seconds`.
  void saved(double now_seconds, double stall_seconds);
  // It became durable, so long after it was begun: no interval is shorter.
  void became_durable(double after_seconds) { durable_after_ = after_seconds; }

  // What `adaptive` has come to, and why; nothing before the first save.
  std::optional<double> adaptive_seconds(double now_seconds) const;
  std::string reason(double now_seconds) const;

 private:
  // The given mean stands for one interruption seen in that time; those of the run count beside it.
  double mean_seconds_between_interruptions(double now_seconds) const;

  spec::CheckpointConfig config_;
  Interruptions seen_;
  double last_save_, start_;
  int64_t steps_ = 0;
  std::optional<double> cost_;
  double durable_after_ = 0;
};

}  // namespace muster::train
