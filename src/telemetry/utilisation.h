// Model and hardware FLOPs utilisation, each with its convention and its peak.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace muster::telemetry {

// MFU = model FLOPs of a step / (step seconds * devices * peak); HFU the same with the FLOPs that ran
// (Chowdhery et al., "PaLM", 2022, appendix B). Model FLOPs: attention causal, recomputation never. A result
// above 1 is a Bug. `peak_flops` (of one device) unknown gives nothing.
std::optional<double> utilisation(double flops, double seconds, int64_t devices,
                                  std::optional<double> peak_flops);

// "MFU, model FLOPs (causal attention, no recomputation) over the dense float32 peak of 2 x 83 GFLOP/s
// (measured by probe)".
std::string convention(const std::string& dtype, int64_t devices, std::optional<double> peak_flops,
                       const std::string& peak_source);

// Steps a second and time left from the steps done since this process started (after a resume too), leaving
// the first `skip` steps out of both counts.
class Pace {
 public:
  explicit Pace(int64_t skip = 1) : skip_(skip) {}
  // After each step: the time now, and how long the step took. Between the first timed step's start and the
  // last one's end everything counts, evaluation and checkpoints too.
  void step_done(double now_seconds, double step_seconds);
  std::optional<double> steps_per_second() const;
  std::optional<double> seconds_left(int64_t steps_left) const;

 private:
  int64_t skip_, seen_ = 0;
  double started_seconds_ = 0, ended_seconds_ = 0;
};

}  // namespace muster::telemetry
