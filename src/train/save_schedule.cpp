#include "train/save_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "estimate/checkpoint.h"

namespace muster::train {
namespace {

constexpr int64_t kStepsBeforeFirst = 3;

}  // namespace

bool SaveSchedule::is_time(double now_seconds) {
  ++steps_;
  const double since = now_seconds - last_save_;
  if (config_.every_minutes > 0 && since >= 60 * config_.every_minutes) return true;
  if (!config_.adaptive) return false;
  const std::optional<double> interval = adaptive_seconds(now_seconds);
  return interval ? since >= *interval : steps_ >= kStepsBeforeFirst;
}

void SaveSchedule::saved(double now_seconds, double stall_seconds) {
  last_save_ = now_seconds;
  // The first copy also takes its memory; the mean moves on as that ages.
  cost_ = cost_ ? (*cost_ + stall_seconds) / 2 : stall_seconds;
}

std::optional<double> SaveSchedule::adaptive_seconds(double now_seconds) const {
  if (!config_.adaptive || !cost_) return std::nullopt;
  const double best = estimate::daly_interval(*cost_, mean_seconds_between_interruptions(now_seconds));
  return std::max(best, durable_after_);
}

std::string SaveSchedule::reason(double now_seconds) const {
  const std::optional<double> interval = adaptive_seconds(now_seconds);
  if (!interval) return "";
  const double mean = mean_seconds_between_interruptions(now_seconds);
  const double seen_hours = seen_.hours + (now_seconds - start_) / 3600;
  std::string text = fmt::format(
      "checkpoints about every {}: least is lost so (Daly 2006, equation 37) where one stops training for {} "
      "and {} lie between interruptions ({} h were given, {} seen in {:.1f} h)",
      format_seconds(*interval), format_seconds(*cost_), format_seconds(mean),
      config_.hours_between_interruptions, seen_.count, seen_hours);
  if (*interval == durable_after_) text += "; no sooner than one takes to become durable";
  return text;
}

double SaveSchedule::mean_seconds_between_interruptions(double now_seconds) const {
  const double seen_seconds = 3600 * seen_.hours + (now_seconds - start_);
  return (3600 * config_.hours_between_interruptions + seen_seconds) / static_cast<double>(1 + seen_.count);
}

}  // namespace muster::train
