#include "telemetry/progress_line.h"

#include <fmt/format.h>

#include <cmath>

#include "base/units.h"

namespace muster::telemetry {
namespace {

std::string memory_text(int64_t measured, std::optional<int64_t> rehearsed) {
  if (!rehearsed) return "peak " + format_bytes(measured);
  return fmt::format("peak {} (rehearsed {})", format_bytes(measured), format_bytes(*rehearsed));
}

std::string mfu_text(std::optional<double> mfu) {
  return mfu ? fmt::format("MFU {:>4.1f} %", 100 * *mfu) : "MFU unknown";
}

std::string speed_text(double tokens_per_second) {
  const bool whole = tokens_per_second >= 100;
  return whole ? format_exact(std::llround(tokens_per_second)) : fmt::format("{:.1f}", tokens_per_second);
}

// An estimate is good to a second at best.
std::string whole_seconds(double seconds) {
  return seconds < 60 ? fmt::format("{:.0f} s", seconds) : format_seconds(seconds);
}

}  // namespace

std::string progress_line(const StepMetrics& metrics, const Progress& progress) {
  const std::string steps = std::to_string(progress.steps);
  std::string line =
      fmt::format("step {:>{}}/{}  loss {:>7.4f}  norm {:>7.4f}  lr {:.2e}  {:>9} tokens/s  {}  {}",
                  metrics.step, steps.size(), steps, metrics.loss, metrics.grad_norm, metrics.learning_rate,
                  speed_text(metrics.tokens_per_second), mfu_text(metrics.mfu),
                  memory_text(metrics.peak_bytes, progress.rehearsed_peak_bytes));
  if (progress.seconds_left) line += fmt::format("  left {:>6}", whole_seconds(*progress.seconds_left));
  if (metrics.validation_loss) line += fmt::format("  validation {:.4f}", *metrics.validation_loss);
  if (metrics.skipped) line += "  update skipped: the gradient is not finite";
  return line;
}

}  // namespace muster::telemetry
