// One step's figures, and the files that they go to: metrics.jsonl, TensorBoard events.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "telemetry/state_file_figures.h"

namespace muster::telemetry {

struct StepMetrics {
  int64_t step = 0;      // of the update, from 1
  double loss = 0;       // mean over the target tokens of the global batch, before the update
  double grad_norm = 0;  // before clipping
  double learning_rate = 0;
  int64_t tokens = 0;       // target tokens of this step, all ranks
  int64_t tokens_seen = 0;  // since step 1
  double step_seconds = 0;
  double tokens_per_second = 0;
  std::optional<double> mfu, hfu;  // fractions; nothing where the peak is unknown
  bool skipped = false;            // a non-finite gradient: no update
  std::optional<double> validation_loss;
  int64_t peak_bytes = 0;  // of this rank, measured
  double data_wait_seconds = 0;
  double exposed_communication_seconds = 0;
  std::optional<StateFileFigures>
      state_file;                      // of this rank, since the last line, with layout.offload = "file"
  std::optional<std::string> resumed;  // the contract under which the run went on just before this step
  bool checkpoint_requested = false;   // of the state after this step
  std::optional<int64_t>
      checkpoint_durable;         // the step of the one that has become durable since the last line
  double checkpoint_seconds = 0;  // that training stood still for checkpoints since the last line
};

// A figure that is not finite is null, and the object then has "non_finite": true; a figure that is not known
// is null without it.
Json to_json(const StepMetrics& metrics);
// The inverse, from a file of the run: missing keys keep their defaults, a null under "non_finite" is NaN.
// WorldError(data) where a key holds another type.
StepMetrics step_metrics_from_json(const Json& json, const std::string& source);

// Something that takes each step's figures. A sink that fails says so once, counts drops, and never stops
// training; what reaches the file are whole steps only.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  virtual void write(const StepMetrics& metrics) = 0;
  // To the disk, not only to the system.
  virtual void flush() {}
  virtual int64_t dropped() const { return 0; }
};

// One JSON object a line, appended; a line that a killed run left half-written is taken off first.
std::unique_ptr<MetricsSink> make_jsonl_sink(const fs::path& file, Log log = Log());
// Takes off every line of a later step than `last_step`, and any that is none; the file is replaced whole.
// How many steps went. WorldError where it cannot be.
int64_t keep_steps(const fs::path& file, int64_t last_step);
// A new events.out.tfevents.* in `folder`, as TensorBoard reads them (tfevents.h).
std::unique_ptr<MetricsSink> make_tensorboard_sink(const fs::path& folder, Log log = Log());

}  // namespace muster::telemetry
