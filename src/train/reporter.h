// What the reporting rank tells of a run while it goes on and when it ends.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "telemetry/metrics.h"
#include "telemetry/utilisation.h"
#include "train/loop.h"

namespace muster::train {

class Reporter {
 public:
  // `steps_before`: those that a resumed run has behind it; `contract`: under which it goes on.
  Reporter(const spec::Job& job, Rank& rank, const LoopOptions& options, int64_t steps_before,
           const std::string& contract, const Log& log);

  // A step is done: figures to the sinks, a line for a person each `log_every` steps and at the ends.
  void step_done(telemetry::StepMetrics metrics, double hardware_flops);
  void evaluation_done(int64_t step, double loss, double seconds);
  void checkpoint_done(double seconds);
  // Writes records, trace and summary.
  telemetry::RunSummary finish(const telemetry::StepRecord& measured, const std::string& exit_reason,
                               int stop_signal);

 private:
  void say_start();
  // Nothing, said once, where the hardware file's peak is below what was reached.
  std::optional<double> share_of_peak(double flops, double seconds);
  telemetry::RunSummary describe() const;

  const spec::Job& job_;
  Rank& rank_;
  const LoopOptions& options_;
  const Log& log_;
  std::optional<double> peak_flops_;
  std::vector<std::unique_ptr<telemetry::MetricsSink>> sinks_;
  telemetry::Pace pace_;
  telemetry::RunSummary summary_;
  std::optional<telemetry::MemoryFigures> rehearsed_memory_;
  bool peak_is_wrong_ = false;
  double first_step_seconds_ = 0;  // when the first step began
  double timed_seconds_ = 0, mfu_sum_ = 0, hfu_sum_ = 0;
  int64_t timed_tokens_ = 0, timed_steps_ = 0;
};

}  // namespace muster::train
