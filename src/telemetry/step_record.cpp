#include "telemetry/step_record.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace muster::telemetry {
namespace {

constexpr std::array<const char*, kCategoryCount> kCategoryNames = {
    "parameters",    "master_parameters", "gradients", "optimizer", "activations",
    "temporary",     "communication",     "input",     "scratch",   "other",
    "host_optimizer"};

constexpr int kScratch = static_cast<int>(Category::scratch);

// Live bytes by category, moved on by one event at a time.
struct Live {
  std::array<int64_t, kCategoryCount> by_category{};
  int64_t on_device = 0;

  explicit Live(const StepRecord& record) {
    for (int category = 0; category < kCategoryCount; ++category)
      add(record.live_at_start[category], static_cast<Category>(category));
  }
  void add(int64_t bytes, Category category) {
    by_category[static_cast<size_t>(category)] += bytes;
    if (is_on_device(category)) on_device += bytes;
  }
};

}  // namespace

const char* to_string(Category category) {
  return kCategoryNames.at(static_cast<size_t>(category));
}

bool is_persistent(Category category) {
  return category <= Category::optimizer;
}

bool is_on_device(Category category) {
  return category != Category::scratch && category != Category::host_optimizer;
}

double StepRecord::hardware_flops() const {
  double sum = 0;
  for (const OpEvent& op : ops) sum += op.flops;
  return sum;
}

std::vector<MessageTotal> StepRecord::message_totals() const {
  std::vector<MessageTotal> totals;
  for (const MessageEvent& message : messages) {
    auto total = std::find_if(totals.begin(), totals.end(), [&](const MessageTotal& known) {
      return known.axis == message.axis && known.op == message.op;
    });
    if (total == totals.end()) total = totals.insert(total, {message.axis, message.op});
    ++total->count;
    total->bytes += message.bytes;
  }
  return totals;
}

std::string StepRecord::place_of(size_t event) const {
  const bool is_linked = !ops.empty() && ops.back().memory_after > 0;
  if (!is_linked) return "";
  const auto op =
      std::find_if(ops.begin(), ops.end(), [&](const OpEvent& each) { return each.memory_after > event; });
  if (op == ops.end()) return "after the last operator";
  return (op->where.empty() ? "" : op->where + ", ") + op->name + (op->phase.empty() ? "" : ", " + op->phase);
}

Peak find_peak(const StepRecord& record) {
  Live live(record);
  Peak peak;
  const auto keep = [&](size_t event, bool at_start) {
    peak.bytes = live.on_device;
    peak.event = event;
    peak.at_start = at_start;
    std::copy(live.by_category.begin(), live.by_category.end(), peak.by_category);
  };
  keep(0, true);
  for (size_t event = 0; event < record.memory.size(); ++event) {
    live.add(record.memory[event].bytes, record.memory[event].category);
    if (live.on_device > peak.bytes) keep(event, false);
  }
  return peak;
}

int64_t scratch_peak(const StepRecord& record) {
  int64_t live = record.live_at_start[kScratch], peak = live;
  for (const MemoryEvent& event : record.memory)
    if (event.category == Category::scratch) peak = std::max(peak, live += event.bytes);
  return peak;
}

}  // namespace muster::telemetry
