#include "train/loop.h"

#include <cstring>

#include "base/error.h"
#include "train/checkpoints.h"
#include "train/final_weights.h"
#include "train/reporter.h"

namespace muster::train {
namespace {

// The step whose every operator, message and byte is kept: the second of this process, when nothing happens
// for the first time.
int64_t recorded_step(const spec::Job& job, int64_t steps_before) {
  return std::min<int64_t>(steps_before + 2, job.training.steps);
}

telemetry::StepMetrics to_metrics(const StepResult& result, const spec::Job& job, int64_t step,
                                  double seconds) {
  telemetry::StepMetrics m;
  m.step = step;
  m.loss = result.loss;
  m.grad_norm = result.grad_norm;
  m.learning_rate = result.learning_rate;
  m.tokens = result.tokens;
  m.tokens_seen = step * job.training.global_batch_size * job.data.sequence_length;
  m.step_seconds = seconds;
  m.tokens_per_second = static_cast<double>(result.tokens) / seconds;
  m.skipped = result.skipped;
  m.data_wait_seconds = result.data_wait_seconds;
  m.exposed_communication_seconds = result.exposed_communication_seconds;
  m.state_file = result.state_file;
  return m;
}

// Steps that were written beyond the one that the run goes on from will be written again.
void cut_metrics(const RunFolder& folder, int64_t steps_before, const Log& log) {
  const int64_t cut = telemetry::keep_steps(folder.metrics(), steps_before);
  if (cut > 0)
    log.warning("{} steps after step {} are cut off {}: they run again", cut, steps_before,
                folder.metrics().string());
}

// Updates without a finite gradient, one after the other.
class Skipped {
 public:
  explicit Skipped(const spec::TrainingConfig& training)
      : most_(training.stop_after_skipped), batch_(training.global_batch_size) {}
  // A batch without a target has no gradient that could be finite.
  void look(int64_t step, const StepResult& result) {
    in_a_row_ = result.skipped && result.tokens > 0 ? in_a_row_ + 1 : 0;
    if (in_a_row_ == 0 || in_a_row_ != most_) return;
    const int64_t first = step - in_a_row_ + 1;
    throw WorldError(
        WorldError::Kind::data,
        fmt::format(
            "updates {} to {} had gradients that are not finite, on samples {} to {}, and were skipped: "
            "the weights are those after update {}; lower optimizer.learning_rate, look at these samples, "
            "or set training.stop_after_skipped",
            first, step, (first - 1) * batch_, step * batch_ - 1, first - 1));
  }

 private:
  int64_t most_, batch_, in_a_row_ = 0;
};

std::string stop_reason(int signal, int64_t step, int64_t newest) {
  const char* name = sigabbrev_np(signal);
  const std::string lost = newest == step ? "saved" : fmt::format("and the steps after {} are lost", newest);
  return fmt::format("stopped by SIG{} after step {}, {}", name ? name : "?", step, lost);
}

}  // namespace

telemetry::RunSummary train(Rank& rank, const spec::Job& job, const data::Dataset& training,
                            const data::Dataset* validation, const LoopOptions& options, const Log& log) {
  const Clock& clock = rank.executor().clock();
  device::Ledger& ledger = device::ledger(rank.executor().device().type());
  const Feed feed(job, rank.mesh(), rank.number(), &training);
  const Feed validation_feed(job, rank.mesh(), rank.number(), validation);
  Checkpoints checkpoints(rank, job, options.checkpoints, log);
  const int64_t steps_before = options.resume ? checkpoints.resume() : 0;
  checkpoints.claim();
  if (options.folder && options.resume) cut_metrics(*options.folder, steps_before, log);

  Skipped skipped(job.training);
  telemetry::StepRecord measured;
  std::string exit_reason = telemetry::kFinished;
  int stop_signal = 0;
  double checkpoint_seconds = 0;  // that training stood still for a save after the step before
  std::optional<Reporter> reporter;
  if (options.folder) reporter.emplace(job, rank, options, steps_before, checkpoints.contract(), log);
  const double hardware_flops =
      options.rehearsed ? options.rehearsed->hardware_flops() * static_cast<double>(rank.mesh().world_size())
                        : 0;

  for (int64_t step = steps_before + 1; step <= job.training.steps && stop_signal == 0; ++step) {
    std::optional<Rank::Recording> recording;
    if (step == recorded_step(job, steps_before)) recording.emplace(rank, measured);
    ledger.reset_peak();
    const double start = clock.seconds();
    const StepResult result = rank.run_step(feed, step, options.observe);
    telemetry::StepMetrics metrics = to_metrics(result, job, step, clock.seconds() - start);
    metrics.peak_bytes = ledger.peak();
    recording.reset();

    const int64_t every = job.training.evaluate_every;
    if (validation && every > 0 && (step % every == 0 || step == job.training.steps)) {
      const double evaluation_start = clock.seconds();
      if (options.observe) options.observe("evaluate", step, 0);
      metrics.validation_loss = rank.evaluate(validation_feed, job.training.evaluate_batches);
      if (reporter)
        reporter->evaluation_done(step, *metrics.validation_loss, clock.seconds() - evaluation_start);
    }
    const double look_start = clock.seconds();
    Checkpoints::Due due = checkpoints.look(step);
    if (step == job.training.steps) due.stop_signal = 0;
    stop_signal = due.stop_signal;
    metrics.checkpoint_requested = due.save;
    metrics.checkpoint_durable = due.durable;
    metrics.checkpoint_seconds = std::exchange(checkpoint_seconds, 0) + clock.seconds() - look_start;
    // The step's line is there before a checkpoint of the step can be.
    if (reporter) reporter->step_done(metrics, hardware_flops);
    skipped.look(step, result);

    if (due.save) {
      const double save_start = clock.seconds();
      if (options.observe) options.observe("save", step, 0);
      checkpoints.save(step);
      if (stop_signal != 0) checkpoints.finish();
      checkpoint_seconds = clock.seconds() - save_start;
    }
    if (reporter) reporter->checkpoint_done(clock.seconds() - look_start);
    if (stop_signal != 0) exit_reason = stop_reason(stop_signal, step, checkpoints.newest_step());
  }

  if (options.observe) options.observe("save", job.training.steps, 0);
  const double finish_start = clock.seconds();
  checkpoints.finish();
  if (reporter) reporter->checkpoint_done(clock.seconds() - finish_start);
  telemetry::RunSummary summary;
  if (stop_signal == 0) reporter ? save_final_weights(rank, job, *options.folder) : hand_over_weights(rank);
  if (reporter) summary = reporter->finish(measured, exit_reason, stop_signal);
  summary.stopped_by_signal = stop_signal;
  return summary;
}

}  // namespace muster::train
