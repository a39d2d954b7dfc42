#include "report/lanes.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "report/frame.h"
#include "report/html.h"
#include "telemetry/trace.h"

namespace muster::report {
namespace {

constexpr double kWidth = 1060, kLeft = 132, kRight = 14, kRow = 19, kGap = 9, kTop = 8, kBottom = 38;
constexpr double kLetter = 6.3;   // width of one, about
constexpr double kNarrow = 1.5;   // a bar below this is joined to its neighbour
constexpr size_t kMostRows = 12;  // of one lane

struct Joined {
  Bar bar;
  size_t count = 1;
};

// Bars of one row in order of start, narrow ones of one class joined.
std::vector<Joined> join_narrow(std::vector<Bar> bars, const Scale& x) {
  std::sort(bars.begin(), bars.end(),
            [](const Bar& left, const Bar& right) { return left.start < right.start; });
  std::vector<Joined> joined;
  for (Bar& bar : bars) {
    const bool is_narrow = x(bar.end) - x(bar.start) < kNarrow;
    if (!joined.empty() && is_narrow && joined.back().bar.css_class == bar.css_class &&
        x(bar.start) - x(joined.back().bar.end) < 0.5 &&
        (joined.back().count > 1 || x(joined.back().bar.end) - x(joined.back().bar.start) < kNarrow)) {
      joined.back().bar.end = std::max(joined.back().bar.end, bar.end);
      ++joined.back().count;
    } else {
      joined.push_back({std::move(bar)});
    }
  }
  return joined;
}

std::string draw_bar(const Joined& joined, const Scale& x, double top) {
  const Bar& bar = joined.bar;
  const double from = x(bar.start), width = std::max(0.4, x(bar.end) - from);
  const std::string what = joined.count > 1 ? fmt::format("{} short events", joined.count) : bar.name;
  const std::string said =
      fmt::format("{}\n{}{}{}", what, format_seconds(bar.end - bar.start),
                  bar.detail.empty() || joined.count > 1 ? "" : "\n", joined.count > 1 ? "" : bar.detail);
  std::string drawn = fmt::format(
      "<rect class=\"bar {}\" x=\"{}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\"><title>{}</title></rect>",
      bar.css_class, place(from), place(top), width, place(kRow - 2), escape(said));
  if (joined.count == 1 && width > kLetter * static_cast<double>(bar.name.size()) + 8)
    drawn += fmt::format("<text class=\"bar-text\" x=\"{}\" y=\"{}\">{}</text>", place(from + 4),
                         place(top + 12.5), escape(bar.name));
  return drawn;
}

std::vector<std::vector<Bar>> split_rows(const Lane& lane) {
  std::vector<std::pair<double, double>> intervals;
  for (const Bar& bar : lane.bars) intervals.emplace_back(bar.start, bar.end);
  const std::vector<size_t> row_of = telemetry::rows_of(intervals);
  std::vector<std::vector<Bar>> rows;
  for (size_t index = 0; index < lane.bars.size(); ++index) {
    const size_t row = std::min(row_of[index], kMostRows - 1);
    if (row >= rows.size()) rows.resize(row + 1);
    rows[row].push_back(lane.bars[index]);
  }
  return rows;
}

// Draws one lane below `top` and moves `top` on.
std::string draw_lane(const Lane& lane, const Scale& x, double& top) {
  const double first = top;
  std::string drawn;
  for (const std::vector<Bar>& row : split_rows(lane)) {
    for (const Joined& joined : join_narrow(row, x)) drawn += draw_bar(joined, x, top);
    top += kRow;
  }
  drawn += fmt::format("<text class=\"lane-name\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                       place(kLeft - 10), place(first + 12.5), escape(lane.name));
  top += kGap;
  return drawn;
}

std::string time_axis(double milliseconds, double bottom) {
  const Scale x{0, milliseconds, kLeft, kWidth - kRight};
  std::string lines, texts;
  for (const double tick : linear_ticks(0, milliseconds, 8)) {
    lines += fmt::format("M{} {}V{}", place(x(tick)), place(kTop - 4), place(bottom));
    texts += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>", place(x(tick)),
                         place(bottom + 14), tick_text(tick));
  }
  return fmt::format(
      "<path class=\"grid\" d=\"{}\"/><g class=\"ticks\">{}<text class=\"title\" x=\"{}\" y=\"{}\" "
      "text-anchor=\"end\">milliseconds from the start of the step</text></g>",
      lines, texts, place(kWidth - kRight), place(bottom + 30));
}

}  // namespace

std::string lanes(const std::vector<Lane>& lanes, double start_seconds, double end_seconds) {
  const Scale x{start_seconds, end_seconds, kLeft, kWidth - kRight};
  std::string bars;
  double top = kTop;
  for (const Lane& lane : lanes) bars += draw_lane(lane, x, top);
  return fmt::format("<svg role=\"img\" aria-label=\"timeline of one step\" viewBox=\"0 0 {} {}\">{}{}</svg>",
                     place(kWidth), place(top + kBottom - kGap),
                     time_axis((end_seconds - start_seconds) * 1e3, top - kGap + 4), bars);
}

}  // namespace muster::report
