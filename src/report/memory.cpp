#include <algorithm>

#include <fmt/format.h>

#include "base/units.h"
#include "report/html.h"
#include "report/memory_profile.h"
#include "report/sections.h"

namespace muster::report {
namespace {

using telemetry::Category;
using telemetry::kCategoryCount;
using telemetry::Peak;
using telemetry::StepRecord;

std::string legend(const std::vector<MemoryProfile>& profiles) {
  std::vector<Layer> seen;
  for (const MemoryProfile& profile : profiles)
    for (const Layer& layer : profile.layers)
      if (std::none_of(seen.begin(), seen.end(),
                       [&](const Layer& known) { return known.name == layer.name; }))
        seen.push_back(layer);
  std::string items;
  for (const Layer& layer : seen)
    items += fmt::format("<span class=\"key\"><i class=\"swatch {}\"></i>{}</span>", layer.css_class,
                         escape(layer.name));
  if (std::any_of(profiles.begin(), profiles.end(),
                  [](const auto& profile) { return !profile.phases.empty(); }))
    items +=
        "<span class=\"key-title\">strip:</span><span class=\"key\"><i class=\"swatch "
        "phase-forward\"></i>forward</span>"
        "<span class=\"key\"><i class=\"swatch phase-backward\"></i>backward</span>"
        "<span class=\"key\"><i class=\"swatch phase-update\"></i>update</span>";
  return "<div class=\"legend\">" + items + "</div>";
}

// Profiles drawn one under the other on the same axes.
std::string pictures(const std::vector<std::string>& titles, const std::vector<MemoryProfile>& profiles) {
  double x_high = 1, bytes_high = 1;
  for (const MemoryProfile& profile : profiles)
    x_high = std::max(x_high, profile.x_high), bytes_high = std::max(bytes_high, profile.bytes_high);
  std::string drawn;
  for (size_t index = 0; index < profiles.size(); ++index) {
    const MemoryProfile& profile = profiles[index];
    AreaChart chart{"live memory by category, " + titles[index],
                    profile.positions,
                    profile.layers,
                    profile.phases,
                    profile.peak,
                    x_high,
                    bytes_high,
                    profile.by_operator ? "operators in program order" : "allocations in program order"};
    drawn +=
        fmt::format("<h3>{}</h3><div class=\"chart\">{}</div>", escape(titles[index]), area_chart(chart));
  }
  return drawn;
}

std::string bytes_cell(int64_t bytes) {
  return bytes ? format_exact(bytes) : "<span class=\"nothing\">0</span>";
}

std::string difference_cell(int64_t measured, int64_t rehearsed) {
  const int64_t off = measured - rehearsed;
  if (off == 0) return "<span class=\"same\">=</span>";
  return fmt::format("<span class=\"differs\">{}{}</span>", off > 0 ? "+" : "", format_exact(off));
}

std::vector<std::string> table_row(const std::string& name, std::optional<int64_t> rehearsed,
                                   std::optional<int64_t> measured) {
  return {name, rehearsed ? bytes_cell(*rehearsed) : "–", measured ? bytes_cell(*measured) : "–",
          rehearsed && measured ? difference_cell(*measured, *rehearsed) : "–"};
}

template <class Figure>
std::optional<int64_t> figure_of(const std::optional<StepRecord>& record, Figure&& figure) {
  return record ? std::optional<int64_t>(figure(*record)) : std::nullopt;
}

int64_t host_optimizer(const StepRecord& record) {
  return telemetry::memory_figures(record).host_optimizer;
}

// What was live at the peak, category by category; what is not on the device has lines of its own.
std::string peak_table(const RunFiles& run) {
  std::vector<std::vector<std::string>> rows;
  for (int category = 0; category < kCategoryCount; ++category) {
    if (!telemetry::is_on_device(static_cast<Category>(category))) continue;
    const auto at_peak = [&](const StepRecord& record) { return find_peak(record).by_category[category]; };
    const auto rehearsed = figure_of(run.rehearsed, at_peak), measured = figure_of(run.measured, at_peak);
    if (rehearsed.value_or(0) == 0 && measured.value_or(0) == 0) continue;
    rows.push_back(table_row(
        fmt::format("<i class=\"swatch {}\"></i>{}", category_class(static_cast<Category>(category)),
                    category_name(static_cast<Category>(category))),
        rehearsed, measured));
  }
  const auto peak = [](const StepRecord& record) { return find_peak(record).bytes; };
  rows.push_back(table_row("<b>peak</b>", figure_of(run.rehearsed, peak), figure_of(run.measured, peak)));
  std::vector<std::string> scratch = table_row(
      "<i class=\"swatch memory-scratch\"></i>scratch inside operators, largest",
      figure_of(run.rehearsed, telemetry::scratch_peak), figure_of(run.measured, telemetry::scratch_peak));
  scratch.back() = "<span class=\"nothing\">beside the peak</span>";
  rows.push_back(std::move(scratch));
  const auto rehearsed = figure_of(run.rehearsed, host_optimizer),
             measured = figure_of(run.measured, host_optimizer);
  if (rehearsed.value_or(0) > 0 || measured.value_or(0) > 0)
    rows.push_back(table_row("optimizer state in host memory, beside the peak", rehearsed, measured));
  return html_table({"live at the peak", "rehearsed, bytes", "measured, bytes", "difference"}, rows, 1);
}

}  // namespace

std::string memory_section(const RunFiles& run) {
  const std::string lead =
      "Every byte of every tensor of rank 0, by what it is for, from the first operator to the last.";
  std::vector<std::string> titles;
  std::vector<MemoryProfile> profiles;
  std::string absent;
  const auto take = [&](const char* title, const std::optional<StepRecord>& record, const char* file) {
    if (!record) {
      absent += missing(fmt::format("{}: {}", title, run.problems.at(file)));
      return;
    }
    titles.emplace_back(title);
    profiles.push_back(memory_profile(*record));
  };
  take("Rehearsed", run.rehearsed, "trace/record.rehearsed.json");
  take("Measured", run.measured, "trace/record.measured.json");
  if (profiles.empty()) return section("memory", "Memory over one step", lead, absent);
  return section("memory", "Memory over one step", lead,
                 legend(profiles) + pictures(titles, profiles) + absent + peak_table(run));
}

}  // namespace muster::report
