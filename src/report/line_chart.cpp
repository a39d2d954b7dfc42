#include "report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/frame.h"
#include "report/html.h"

namespace muster::report {
namespace {

constexpr size_t kMostDots = 60;

bool can_draw(const LineChart& chart, const Point& point) {
  const auto [x, y] = point;
  return std::isfinite(y) && (!chart.logarithmic_y || y > 0) && (!chart.logarithmic_x || x > 0);
}

Range x_range(const LineChart& chart) {
  double low = INFINITY, high = -INFINITY;
  for (const Series& series : chart.series)
    for (const auto& [x, y] : series.points)
      if (!chart.logarithmic_x || x > 0) low = std::min(low, x), high = std::max(high, x);
  if (low > high) return {1, 2};
  return low == high ? Range{low * 0.5, low * 1.5 + 1} : Range{low, high};
}

Range y_range(const LineChart& chart) {
  std::vector<double> values;
  for (const Series& series : chart.series)
    for (const Point& point : series.points)
      if (can_draw(chart, point)) values.push_back(point.second);
  Range range = range_of(values, chart.logarithmic_y);
  if (chart.from_zero) range.low = 0;
  return range;
}

// One path; the pen is lifted over what cannot be drawn.
std::string line_path(const LineChart& chart, const Frame& frame, const std::vector<Point>& points) {
  std::string path;
  bool pen_is_down = false;
  for (const Point& point : points) {
    const bool draw = can_draw(chart, point);
    if (draw)
      path += fmt::format("{}{} {}", pen_is_down ? "L" : "M", place(frame.x()(point.first)),
                          place(frame.y()(point.second)));
    pen_is_down = draw;
  }
  return path;
}

std::string draw_series(const LineChart& chart, const Frame& frame, const Series& series) {
  const std::vector<Point> points = thin(series.points, 900);
  std::string drawn =
      fmt::format("<path class=\"line {}\" d=\"{}\"/>", series.css_class, line_path(chart, frame, points));
  if ((series.dots && points.size() <= kMostDots) || points.size() == 1)
    for (const Point& point : points)
      if (can_draw(chart, point))
        drawn += fmt::format("<circle class=\"dot {}\" cx=\"{}\" cy=\"{}\" r=\"3.2\"/>", series.css_class,
                             place(frame.x()(point.first)), place(frame.y()(point.second)));
  return drawn;
}

std::string draw_marks(const LineChart& chart, const Frame& frame) {
  std::string drawn;
  for (const double mark : chart.marks)
    drawn += fmt::format("<path class=\"mark\" d=\"M{} {}l-4 8h8z\"/>", place(frame.x()(mark)),
                         place(frame.bottom() - 8));
  return drawn;
}

// What the pointer reads: the points of every series, at their places.
Hover hover_of(const LineChart& chart, const Frame& frame) {
  std::vector<std::pair<double, std::string>> said;
  for (const Series& series : chart.series)
    for (const Point& point : thin(series.points, 400))
      said.emplace_back(point.first, fmt::format("{} {}: {} {:.6g}", chart.x_title, point.first, series.name,
                                                 point.second));
  std::stable_sort(said.begin(), said.end(),
                   [](const auto& left, const auto& right) { return left.first < right.first; });
  Hover hover;
  for (const auto& [x, text] : said) {
    if (chart.logarithmic_x && x <= 0) continue;
    hover.places.push_back(frame.x()(x));
    hover.texts.push_back(text);
  }
  return hover;
}

std::string legend(const std::vector<Series>& series) {
  if (series.size() < 2) return "";
  std::string items;
  for (const Series& entry : series)
    items += fmt::format("<span class=\"key\"><i class=\"swatch {}\"></i>{}</span>", entry.css_class,
                         escape(entry.name));
  return "<div class=\"legend\">" + items + "</div>";
}

}  // namespace

std::string line_chart(const LineChart& chart) {
  const Range x = x_range(chart), y = y_range(chart);
  const Frame frame(chart.width, chart.height, x, y, chart.logarithmic_x, chart.logarithmic_y);
  const int about_x = static_cast<int>(chart.width / 110), about_y = static_cast<int>(chart.height / 48);
  const Axis horizontal{
      chart.logarithmic_x ? logarithmic_ticks(x.low, x.high) : linear_ticks(x.low, x.high, about_x),
      tick_text, chart.x_title};
  const Axis vertical{
      chart.logarithmic_y ? logarithmic_ticks(y.low, y.high) : linear_ticks(y.low, y.high, about_y),
      tick_text, chart.y_title};
  std::string content = frame.axes(horizontal, vertical);
  for (const Series& series : chart.series) content += draw_series(chart, frame, series);
  content += draw_marks(chart, frame);
  return legend(chart.series) + frame.svg(chart.label, content, hover_of(chart, frame).attributes());
}

}  // namespace muster::report
