// What a person sees at each logged step: one line, kept in the log, its columns under one another.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "telemetry/metrics.h"

namespace muster::telemetry {

// What a step's own figures do not say.
struct Progress {
  int64_t steps = 0;                            // of the whole run
  std::optional<int64_t> rehearsed_peak_bytes;  // of this rank
  std::optional<double> seconds_left;
};

// "step   40/2000  loss 2.3456  norm 0.812  lr 3.00e-04  12,345 tokens/s  MFU 61.2 %
//  peak 321.4 MiB (rehearsed 321.4 MiB)  left 1m33s", on one line.
// MFU's convention is utilisation.h's convention(), said once at the start.
std::string progress_line(const StepMetrics& metrics, const Progress& progress);

}  // namespace muster::telemetry
