#include "telemetry/metrics.h"

#include "telemetry/fields.h"

namespace muster::telemetry {

template <Is<StepMetrics> Self, class Visit>
void for_each_field(Self& self, Visit&& visit) {
  visit("step", self.step);
  visit("loss", self.loss);
  visit("grad_norm", self.grad_norm);
  visit("learning_rate", self.learning_rate);
  visit("tokens", self.tokens);
  visit("tokens_seen", self.tokens_seen);
  visit("step_seconds", self.step_seconds);
  visit("tokens_per_second", self.tokens_per_second);
  visit("mfu", self.mfu);
  visit("hfu", self.hfu);
  visit("skipped", self.skipped);
  visit("validation_loss", self.validation_loss);
  visit("peak_bytes", self.peak_bytes);
  visit("data_wait_seconds", self.data_wait_seconds);
  visit("exposed_communication_seconds", self.exposed_communication_seconds);
  visit("state_file", self.state_file);
  visit("resumed", self.resumed);
  visit("checkpoint_requested", self.checkpoint_requested);
  visit("checkpoint_durable", self.checkpoint_durable);
  visit("checkpoint_seconds", self.checkpoint_seconds);
}

Json to_json(const StepMetrics& metrics) {
  FieldWriter writer;
  for_each_field(metrics, writer);
  return writer.take();
}

StepMetrics step_metrics_from_json(const Json& json, const std::string& source) {
  StepMetrics metrics;
  for_each_field(metrics, FieldReader(json, source));
  return metrics;
}

}  // namespace muster::telemetry
