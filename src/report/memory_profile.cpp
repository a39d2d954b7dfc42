#include "report/memory_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/units.h"
#include "report/thin.h"

namespace muster::report {
namespace {

using telemetry::Category;
using telemetry::kCategoryCount;
using telemetry::StepRecord;

using Live = std::array<int64_t, kCategoryCount>;

// Live bytes before the first event and after each.
std::vector<Live> live_after(const StepRecord& record) {
  Live live;
  std::copy(std::begin(record.live_at_start), std::end(record.live_at_start), live.begin());
  std::vector<Live> all = {live};
  for (const telemetry::MemoryEvent& event : record.memory) {
    live[static_cast<size_t>(event.category)] += event.bytes;
    all.push_back(live);
  }
  return all;
}

double sum(const Live& live, bool with_scratch) {
  double total = 0;
  for (int category = 0; category < kCategoryCount; ++category)
    if (const auto each = static_cast<Category>(category);
        telemetry::is_on_device(each) || (with_scratch && each == Category::scratch))
      total += static_cast<double>(live[static_cast<size_t>(category)]);
  return total;
}

// Where each memory event stands on the x axis: within its operator, if operators know their events.
std::vector<double> event_places(const StepRecord& record, bool by_operator) {
  std::vector<double> places(record.memory.size());
  size_t op = 0;
  for (size_t event = 0; event < places.size(); ++event) {
    if (!by_operator) {
      places[event] = static_cast<double>(event + 1);
      continue;
    }
    while (op < record.ops.size() && record.ops[op].memory_after <= event) ++op;
    const size_t from = op ? record.ops[op - 1].memory_after : 0;
    const size_t to = op < record.ops.size() ? record.ops[op].memory_after : places.size();
    places[event] =
        static_cast<double>(op) + static_cast<double>(event - from) / static_cast<double>(to - from);
  }
  return places;
}

std::vector<Band> phases_of(const StepRecord& record) {
  std::vector<Band> bands;
  for (size_t op = 0; op < record.ops.size(); ++op) {
    const std::string& phase = record.ops[op].phase;
    if (bands.empty() || bands.back().name != phase)
      bands.push_back({phase, "phase " + phase_class(phase), static_cast<double>(op), 0});
    bands.back().to = static_cast<double>(op + 1);
  }
  return bands;
}

std::vector<Layer> layers_of(const std::vector<Live>& live, const std::vector<size_t>& kept) {
  static constexpr Category kOrder[] = {Category::parameters, Category::master_parameters,
                                        Category::optimizer,  Category::gradients,
                                        Category::input,      Category::activations,
                                        Category::temporary,  Category::communication,
                                        Category::other,      Category::scratch};
  std::vector<Layer> layers;
  for (const Category category : kOrder) {
    Layer layer{category_name(category), category_class(category), {}};
    for (const size_t index : kept)
      layer.values.push_back(static_cast<double>(live[index][static_cast<size_t>(category)]));
    if (std::any_of(layer.values.begin(), layer.values.end(), [](double bytes) { return bytes != 0; }))
      layers.push_back(std::move(layer));
  }
  return layers;
}

Mark peak_mark(const StepRecord& record, const std::vector<double>& places) {
  const telemetry::Peak peak = find_peak(record);
  const std::string place = peak.at_start ? "the start of the step" : record.place_of(peak.event);
  return {peak.at_start ? 0 : places[peak.event], static_cast<double>(peak.bytes),
          fmt::format("peak {}{}{}", format_bytes(peak.bytes), place.empty() ? "" : " · ", place)};
}

}  // namespace

std::string phase_class(const std::string& phase) {
  return phase == "forward" || phase == "backward" || phase == "update" ? "phase-" + phase : "phase-other";
}

std::string category_class(Category category) {
  return std::string("memory-") + telemetry::to_string(category);
}

std::string category_name(Category category) {
  std::string name = telemetry::to_string(category);
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

MemoryProfile memory_profile(const StepRecord& record, size_t most) {
  MemoryProfile profile;
  profile.by_operator = !record.ops.empty() && record.ops.back().memory_after > 0;
  const std::vector<Live> live = live_after(record);
  std::vector<double> places = event_places(record, profile.by_operator), sizes;
  for (const Live& at : live) sizes.push_back(sum(at, false));
  const std::vector<size_t> kept = thin_by_largest(sizes, most);
  for (const size_t index : kept) {
    profile.positions.push_back(index ? places[index - 1] : 0);
    profile.bytes_high = std::max(profile.bytes_high, sum(live[index], true));
  }
  profile.layers = layers_of(live, kept);
  if (profile.by_operator) profile.phases = phases_of(record);
  profile.peak = peak_mark(record, places);
  profile.x_high = static_cast<double>(
      std::max<size_t>(1, profile.by_operator ? record.ops.size() : record.memory.size()));
  return profile;
}

}  // namespace muster::report
