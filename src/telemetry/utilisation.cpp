#include "telemetry/utilisation.h"

#include "base/error.h"
#include "base/units.h"

namespace muster::telemetry {

std::optional<double> utilisation(double flops, double seconds, int64_t devices,
                                  std::optional<double> peak_flops) {
  if (!peak_flops) return std::nullopt;
  MUSTER_CHECK(flops >= 0 && seconds > 0 && devices > 0 && *peak_flops > 0,
               "flops {}, seconds {}, devices {}, peak {}", flops, seconds, devices, *peak_flops);
  const double fraction = flops / (seconds * static_cast<double>(devices) * *peak_flops);
  MUSTER_CHECK(
      fraction <= 1,
      "{} in {} s on {} devices is {:.1f} % of their peak of {}/s each: the FLOPs are counted by another "
      "convention, or the peak is of another precision or too low",
      format_flops(flops), seconds, devices, 100 * fraction, format_flops(*peak_flops));
  return fraction;
}

std::string convention(const std::string& dtype, int64_t devices, std::optional<double> peak_flops,
                       const std::string& peak_source) {
  if (!peak_flops)
    return fmt::format("MFU is unknown: no dense {} peak is known for this hardware ({})", dtype,
                       peak_source.empty() ? "`muster probe` measures it" : peak_source);
  return fmt::format(
      "MFU: model FLOPs (causal attention, no recomputation) over the dense {} peak of {} x {}/s ({})", dtype,
      devices, format_flops(*peak_flops), peak_source);
}

void Pace::step_done(double now_seconds, double step_seconds) {
  ++seen_;
  if (seen_ == skip_ + 1) started_seconds_ = now_seconds - step_seconds;
  ended_seconds_ = now_seconds;
}

std::optional<double> Pace::steps_per_second() const {
  const double seconds = ended_seconds_ - started_seconds_;
  if (seen_ <= skip_ || seconds <= 0) return std::nullopt;
  return static_cast<double>(seen_ - skip_) / seconds;
}

std::optional<double> Pace::seconds_left(int64_t steps_left) const {
  const std::optional<double> pace = steps_per_second();
  if (!pace) return std::nullopt;
  return static_cast<double>(steps_left) / *pace;
}

}  // namespace muster::telemetry
