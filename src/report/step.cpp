// One measured step in time: the lanes, and the operators that took longest.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/units.h"
#include "report/html.h"
#include "report/lanes.h"
#include "report/memory_profile.h"
#include "report/sections.h"

namespace muster::report {
namespace {

using telemetry::OpEvent;
using telemetry::StepRecord;

Lane& lane_named(std::vector<Lane>& lanes, const std::string& name) {
  for (Lane& lane : lanes)
    if (lane.name == name) return lane;
  return lanes.emplace_back(Lane{name, {}});
}

std::string op_detail(const OpEvent& op) {
  std::string text = op.where + (op.where.empty() ? "" : "\n") + op.phase;
  if (op.flops > 0 && op.seconds > 0)
    text += fmt::format("\n{}, {}/s", format_flops(op.flops), format_flops(op.flops / op.seconds));
  return text;
}

std::vector<Lane> lanes_of(const StepRecord& record) {
  std::vector<Lane> lanes;
  for (const telemetry::Span& span : record.spans)
    lane_named(lanes, span.track)
        .bars.push_back({span.start_seconds, span.start_seconds + span.seconds, span.name,
                         "span " + phase_class(span.name), ""});
  for (const OpEvent& op : record.ops)
    lane_named(lanes, "operators")
        .bars.push_back(
            {op.start_seconds, op.start_seconds + op.seconds, op.name, phase_class(op.phase), op_detail(op)});
  for (const telemetry::MessageEvent& message : record.messages)
    lane_named(lanes, message.axis + " axis")
        .bars.push_back({message.issued_seconds, message.done_seconds, message.op, "message",
                         fmt::format("{} bytes among {}\nexposed {}", format_exact(message.bytes),
                                     message.group_size, format_seconds(message.exposed_seconds))});
  return lanes;
}

std::pair<double, double> extent(const std::vector<Lane>& lanes) {
  double start = INFINITY, end = -INFINITY;
  for (const Lane& lane : lanes)
    for (const Bar& bar : lane.bars) start = std::min(start, bar.start), end = std::max(end, bar.end);
  return {start, end};
}

struct OpTotal {
  std::string name;
  int64_t count = 0;
  double seconds = 0, flops = 0;
};

std::vector<OpTotal> totals_by_name(const StepRecord& record) {
  std::map<std::string, OpTotal> by_name;
  for (const OpEvent& op : record.ops) {
    OpTotal& total = by_name[op.name + (op.phase.empty() ? "" : ", " + op.phase)];
    ++total.count, total.seconds += op.seconds, total.flops += op.flops;
  }
  std::vector<OpTotal> totals;
  for (auto& [name, total] : by_name) {
    total.name = name;
    totals.push_back(std::move(total));
  }
  std::sort(totals.begin(), totals.end(),
            [](const OpTotal& left, const OpTotal& right) { return left.seconds > right.seconds; });
  return totals;
}

std::string share_bar(double share) {
  return fmt::format(
      "<span class=\"share\"><i style=\"width:{:.1f}%\"></i></span><span class=\"share-text\">{}</span>",
      100 * share, percent(share));
}

std::string operators_table(const StepRecord& record) {
  constexpr size_t kMost = 10;
  const std::vector<OpTotal> totals = totals_by_name(record);
  double all = 0;
  for (const OpTotal& total : totals) all += total.seconds;
  std::vector<std::vector<std::string>> rows;
  for (size_t index = 0; index < std::min(kMost, totals.size()); ++index) {
    const OpTotal& total = totals[index];
    rows.push_back({escape(total.name), format_exact(total.count), format_seconds(total.seconds),
                    share_bar(total.seconds / all),
                    total.flops > 0 ? format_flops(total.flops / total.seconds) + "/s" : "–"});
  }
  const std::string title =
      totals.size() > kMost ? fmt::format("The {} operators of {} that took longest", kMost, totals.size())
                            : std::string("Operators by time");
  return "<h3>" + title + "</h3>" +
         html_table({"operator", "count", "time", "share of operators' time", "rate"}, rows, 1);
}

std::string trace_links(const RunFiles& run) {
  if (run.traces.empty())
    return missing("trace/rank0.json is not there: the step cannot be opened in Perfetto.");
  std::string links;
  for (const std::string& trace : run.traces)
    links += fmt::format("{}<a href=\"{}\" download>{}</a>", links.empty() ? "" : ", ", escape(trace),
                         escape(trace));
  return fmt::format(
      "<p class=\"fine\">The whole step, zoomable: open {} in <a href=\"https://ui.perfetto.dev\" "
      "rel=\"noreferrer\">Perfetto</a> or chrome://tracing.</p>",
      links);
}

constexpr const char* kLegend =
    "<div class=\"legend\"><span class=\"key\"><i class=\"swatch phase-forward\"></i>forward</span><span "
    "class=\"key\"><i "
    "class=\"swatch phase-backward\"></i>backward</span><span class=\"key\"><i class=\"swatch "
    "phase-update\"></i>update</span>"
    "<span class=\"key\"><i class=\"swatch message\"></i>message in flight</span></div>";

}  // namespace

std::string step_section(const RunFiles& run) {
  const std::string lead = "What ran when on rank 0, measured. Point at a bar to read it.";
  if (!run.measured)
    return section("step", "One step in time", lead, missing(run.problems.at("trace/record.measured.json")));
  const std::vector<Lane> rows = lanes_of(*run.measured);
  const auto [start, end] = extent(rows);
  if (!(end > start)) return section("step", "One step in time", lead, missing("The record holds no times."));
  return section("step", "One step in time", lead,
                 kLegend + ("<div class=\"chart\">" + lanes(rows, start, end)) + "</div>" + trace_links(run) +
                     operators_table(*run.measured));
}

}  // namespace muster::report
