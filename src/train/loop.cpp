#include "train/loop.h"

#include "train/final_weights.h"
#include "train/reporter.h"

namespace muster::train {
namespace {

// The step whose every operator, message and byte is kept: the second, when nothing happens for the first
// time.
int64_t recorded_step(const spec::Job& job) {
  return std::min<int64_t>(2, job.training.steps);
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
  return m;
}

}  // namespace

telemetry::RunSummary train(Rank& rank, const spec::Job& job, const data::Dataset& training,
                            const data::Dataset* validation, const LoopOptions& options, const Log& log) {
  const Clock& clock = rank.executor().clock();
  device::Ledger& ledger = device::ledger(rank.executor().device().type());
  const Feed feed(job, rank.mesh(), rank.number(), &training);
  const Feed validation_feed(job, rank.mesh(), rank.number(), validation);
  telemetry::StepRecord measured;
  std::optional<Reporter> reporter;
  if (options.folder) reporter.emplace(job, rank, options, log);
  const double hardware_flops =
      options.rehearsed ? options.rehearsed->hardware_flops() * static_cast<double>(rank.mesh().world_size())
                        : 0;

  for (int64_t step = 1; step <= job.training.steps; ++step) {
    std::optional<Rank::Recording> recording;
    if (step == recorded_step(job)) recording.emplace(rank, measured);
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
    if (reporter) reporter->step_done(metrics, hardware_flops);
  }

  if (!reporter) {
    hand_over_weights(rank);
    return {};
  }
  save_final_weights(rank, job, *options.folder);
  return reporter->finish(measured, "finished");
}

}  // namespace muster::train
