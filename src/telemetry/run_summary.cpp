#include "telemetry/run_summary.h"

#include "telemetry/fields.h"

namespace muster::telemetry {

template <Is<MemoryFigures> Self, class Visit>
void for_each_field(Self& self, Visit&& visit) {
  visit("parameters", self.parameters);
  visit("master_parameters", self.master_parameters);
  visit("gradients", self.gradients);
  visit("optimizer", self.optimizer);
  visit("gathered_bytes", self.gathered_bytes);
  visit("peak_bytes", self.peak_bytes);
  visit("peak_at", self.peak_at);
  visit("scratch_peak_bytes", self.scratch_peak_bytes);
  visit("host_optimizer", self.host_optimizer);
}

template <Is<LostTime> Self, class Visit>
void for_each_field(Self& self, Visit&& visit) {
  visit("start_up", self.start_up);
  visit("data_wait", self.data_wait);
  visit("exposed_communication", self.exposed_communication);
  visit("evaluation", self.evaluation);
  visit("checkpoints", self.checkpoints);
  visit("state_file", self.state_file);
}

template <Is<MessageTotal> Self, class Visit>
void for_each_field(Self& self, Visit&& visit) {
  visit("axis", self.axis);
  visit("op", self.op);
  visit("count", self.count);
  visit("bytes", self.bytes);
}

template <Is<ExposedPart> Self, class Visit>
void for_each_field(Self& self, Visit&& visit) {
  visit("why", self.why);
  visit("count", self.count);
  visit("seconds", self.seconds);
  visit("where", self.where);
}

template <Is<Exposure> Self, class Visit>
void for_each_field(Self& self, Visit&& visit) {
  visit("axis", self.axis);
  visit("op", self.op);
  visit("count", self.count);
  visit("link_seconds", self.link_seconds);
  visit("exposed_seconds", self.exposed_seconds);
  visit("parts", self.parts);
}

template <Is<ProcessFigures> Self, class Visit>
void for_each_field(Self& self, Visit&& visit) {
  visit("rss_after_libraries_bytes", self.rss_after_libraries_bytes);
  visit("peak_rss_bytes", self.peak_rss_bytes);
}

template <Is<RunSummary> Self, class Visit>
void for_each_field(Self& self, Visit&& visit) {
  visit("model_name", self.model_name);
  visit("family", self.family);
  visit("parameters", self.parameters);
  visit("model", self.model);
  visit("layout", self.layout);
  visit("world_size", self.world_size);
  visit("device", self.device);
  visit("dtype", self.dtype);
  visit("threads", self.threads);
  visit("host_cores", self.host_cores);
  visit("muster_version", self.muster_version);
  visit("torch_version", self.torch_version);
  visit("sequence_length", self.sequence_length);
  visit("global_batch_size", self.global_batch_size);
  visit("micro_batch_size", self.micro_batch_size);
  visit("steps", self.steps);
  visit("steps_planned", self.steps_planned);
  visit("skipped_steps", self.skipped_steps);
  visit("resumed_from", self.resumed_from);
  visit("resume_contract", self.resume_contract);
  visit("first_loss", self.first_loss);
  visit("last_loss", self.last_loss);
  visit("best_validation_loss", self.best_validation_loss);
  visit("best_validation_step", self.best_validation_step);
  visit("tokens", self.tokens);
  visit("wall_seconds", self.wall_seconds);
  visit("tokens_per_second", self.tokens_per_second);
  visit("exit_reason", self.exit_reason);
  visit("stopped_by_signal", self.stopped_by_signal);
  visit("dropped_metrics", self.dropped_metrics);
  visit("mfu_convention", self.mfu_convention);
  visit("mfu", self.mfu);
  visit("hfu", self.hfu);
  visit("peak_flops", self.peak_flops);
  visit("peak_source", self.peak_source);
  visit("lost_seconds", self.lost_seconds);
  visit("process", self.process);
  visit("start_to_first_step_seconds", self.start_to_first_step_seconds);
  visit("rehearsed_memory", self.rehearsed_memory);
  visit("measured_memory", self.measured_memory);
  visit("rehearsed_messages", self.rehearsed_messages);
  visit("measured_messages", self.measured_messages);
  visit("exposures", self.exposures);
  visit("state_file", self.state_file);
  visit("state_file_how", self.state_file_how);
}

namespace {

// The most that a category grows above what it had at the start.
int64_t most_growth(const StepRecord& record, Category category) {
  int64_t growth = 0, most = 0;
  for (const MemoryEvent& event : record.memory)
    if (event.category == category) most = std::max(most, growth += event.bytes);
  return most;
}

}  // namespace

MemoryFigures memory_figures(const StepRecord& record) {
  const auto live = [&](Category category) { return record.live_at_start[static_cast<int>(category)]; };
  const Peak peak = find_peak(record);
  return {.parameters = live(Category::parameters),
          .master_parameters = live(Category::master_parameters),
          .gradients = live(Category::gradients),
          .optimizer = live(Category::optimizer),
          .gathered_bytes = most_growth(record, Category::parameters),
          .peak_bytes = peak.bytes,
          .peak_at = peak.at_start ? "the start of the step" : record.place_of(peak.event),
          .scratch_peak_bytes = scratch_peak(record),
          .host_optimizer = live(Category::host_optimizer)};
}

Json to_json(const RunSummary& summary) {
  FieldWriter writer;
  for_each_field(summary, writer);
  return writer.take();
}

RunSummary run_summary_from_json(const Json& json, const std::string& source) {
  RunSummary summary;
  for_each_field(summary, FieldReader(json, source));
  return summary;
}

std::optional<RunSummary> read_run_summary(const fs::path& file) {
  if (!fs::exists(file)) return std::nullopt;
  return run_summary_from_json(parse_json(read_text(file), file.string()), file.string());
}

}  // namespace muster::telemetry
