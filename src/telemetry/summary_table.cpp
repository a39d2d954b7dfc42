#include <fmt/format.h>

#include "base/table.h"
#include "base/units.h"
#include "telemetry/run_summary.h"

namespace muster::telemetry {
namespace {

std::string share(double seconds, double wall_seconds) {
  if (wall_seconds <= 0) return format_seconds(seconds);
  return fmt::format("{} ({:.1f} %)", format_seconds(seconds), 100 * seconds / wall_seconds);
}

std::string memory_text(const std::optional<MemoryFigures>& figures) {
  if (!figures) return "not recorded";
  return fmt::format("{} bytes ({})", format_exact(figures->peak_bytes), format_bytes(figures->peak_bytes));
}

std::string percent(std::optional<double> fraction) {
  return fraction ? fmt::format("{:.1f} %", 100 * *fraction) : "unknown";
}

void add_outcome(Table& table, const RunSummary& summary) {
  table.add({"ended", summary.exit_reason});
  if (summary.resumed_from > 0)
    table.add({"resumed", fmt::format("from step {}, {}", summary.resumed_from, summary.resume_contract)});
  table.add({"steps",
             fmt::format("{} of {}{}", summary.steps, summary.steps_planned,
                         summary.skipped_steps ? fmt::format(" ({} skipped)", summary.skipped_steps) : "")});
  table.add({"loss", fmt::format("{:.4f} -> {:.4f}", summary.first_loss, summary.last_loss)});
  if (summary.best_validation_loss)
    table.add({"best validation loss", fmt::format("{:.4f} at step {}", *summary.best_validation_loss,
                                                   summary.best_validation_step.value_or(0))});
}

void add_speed(Table& table, const RunSummary& summary) {
  table.add({"tokens", format_count(static_cast<double>(summary.tokens))});
  if (summary.tokens_per_second)
    table.add({"tokens/s", format_exact(static_cast<int64_t>(*summary.tokens_per_second))});
  table.add({"MFU", percent(summary.mfu)});
  table.add({"HFU", percent(summary.hfu)});
}

void add_time(Table& table, const RunSummary& summary) {
  const double wall = summary.wall_seconds;
  table.add({"wall time", format_seconds(wall)});
  table.add({"  start-up", share(summary.lost_seconds.start_up, wall)});
  table.add({"  data wait", share(summary.lost_seconds.data_wait, wall)});
  table.add({"  exposed communication", share(summary.lost_seconds.exposed_communication, wall)});
  table.add({"  evaluation", share(summary.lost_seconds.evaluation, wall)});
  table.add({"  checkpoints", share(summary.lost_seconds.checkpoints, wall)});
  if (!summary.state_file) return;
  const StateFileFigures& file = *summary.state_file;
  table.add({"  optimizer state's file", share(summary.lost_seconds.state_file, wall)});
  table.add(
      {"optimizer state's file",
       fmt::format("{} read, {} written at {}/s, {}", format_bytes(file.read_bytes),
                   format_bytes(file.written_bytes),
                   format_bytes(static_cast<int64_t>(file.bytes_per_second())), summary.state_file_how)});
}

}  // namespace

std::string summary_table(const RunSummary& summary) {
  Table table({"run", fmt::format("{}, {} parameters, {} rank{}", summary.model_name,
                                  format_count(static_cast<double>(summary.parameters)), summary.world_size,
                                  summary.world_size == 1 ? "" : "s")});
  add_outcome(table, summary);
  add_speed(table, summary);
  add_time(table, summary);
  table.add({"peak memory, rehearsed", memory_text(summary.rehearsed_memory)});
  table.add({"peak memory, measured", memory_text(summary.measured_memory)});
  return table.text() + summary.mfu_convention + (summary.mfu_convention.empty() ? "" : "\n");
}

}  // namespace muster::telemetry
