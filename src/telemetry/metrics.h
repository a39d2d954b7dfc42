// One step's figures, and the files that they go to: metrics.jsonl, TensorBoard events.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"

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
};
Json to_json(const StepMetrics& metrics);

// Something that takes each step's figures. A sink that fails says so once, counts drops, and never stops
// training.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  virtual void write(const StepMetrics& metrics) = 0;
  virtual void flush() {}
};

std::unique_ptr<MetricsSink> make_jsonl_sink(const fs::path& file);
// events.out.tfevents.* in `folder`, as TensorBoard reads them: TFRecord framing, masked CRC32C.
std::unique_ptr<MetricsSink> make_tensorboard_sink(const fs::path& folder);

}  // namespace muster::telemetry
