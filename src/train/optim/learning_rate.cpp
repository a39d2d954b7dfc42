#include "train/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace muster::train {
namespace {

double between(double from, double to, double progress) {
  return from + (to - from) * progress;
}

// The share of [first, last] that lies behind `step`.
double progress_in(int64_t first, int64_t last, int64_t step) {
  if (last <= first) return 1;
  return std::clamp(static_cast<double>(step - first) / static_cast<double>(last - first), 0.0, 1.0);
}

}  // namespace

double learning_rate(const spec::OptimizerConfig& o, int64_t step, int64_t steps) {
  const double peak = o.learning_rate, least = o.minimum_learning_rate;
  if (step <= o.warmup_steps) return peak * static_cast<double>(step) / static_cast<double>(o.warmup_steps);
  if (o.schedule == "constant") return peak;
  if (o.schedule == "linear") return between(peak, least, progress_in(o.warmup_steps, steps, step));
  if (o.schedule == "cosine") {
    const double progress = progress_in(o.warmup_steps, steps, step);
    return between(least, peak, (1 + std::cos(std::numbers::pi * progress)) / 2);
  }
  MUSTER_CHECK(o.schedule == "wsd", "schedule {}", o.schedule);
  const int64_t decay = o.decay_steps > 0 ? o.decay_steps : steps / 10;
  return between(peak, least, progress_in(steps - decay, steps, step));
}

}  // namespace muster::train
