#include <unistd.h>

#include <chrono>

#include "telemetry/best_effort_file.h"
#include "telemetry/metrics.h"
#include "telemetry/tfevents.h"

namespace muster::telemetry {
namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = "localhost";
  gethostname(name, sizeof name - 1);
  return name;
}

std::vector<Scalar> scalars_of(const StepMetrics& metrics) {
  std::vector<Scalar> scalars;
  const auto add = [&](const char* tag, std::optional<double> value) {
    if (value) scalars.push_back({tag, static_cast<float>(*value)});
  };
  add("loss", metrics.loss);
  add("grad_norm", metrics.grad_norm);
  add("learning_rate", metrics.learning_rate);
  add("skipped", metrics.skipped);
  add("validation_loss", metrics.validation_loss);
  add("tokens_per_second", metrics.tokens_per_second);
  add("step_seconds", metrics.step_seconds);
  add("mfu", metrics.mfu);
  add("hfu", metrics.hfu);
  add("data_wait_seconds", metrics.data_wait_seconds);
  add("exposed_communication_seconds", metrics.exposed_communication_seconds);
  add("peak_bytes", static_cast<double>(metrics.peak_bytes));
  return scalars;
}

class TensorboardSink : public MetricsSink {
 public:
  TensorboardSink(const fs::path& folder, double now, Log log)
      : file_(folder / event_file_name(now, host_name(), getpid()), version_record(now), std::move(log)) {}
  void write(const StepMetrics& metrics) override {
    file_.append(scalar_record(wall_seconds(), metrics.step, scalars_of(metrics)));
  }
  void flush() override { file_.sync(); }
  int64_t dropped() const override { return file_.dropped(); }

 private:
  BestEffortFile file_;
};

}  // namespace

std::unique_ptr<MetricsSink> make_tensorboard_sink(const fs::path& folder, Log log) {
  return std::make_unique<TensorboardSink>(folder, wall_seconds(), std::move(log));
}

}  // namespace muster::telemetry
