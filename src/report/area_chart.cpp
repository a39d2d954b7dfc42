#include "report/area_chart.h"

#include <fmt/format.h>

#include <cmath>

#include "base/units.h"
#include "report/frame.h"
#include "report/html.h"

namespace muster::report {
namespace {

std::string bytes_text(double bytes) {
  const std::string text = format_bytes(std::llround(bytes));
  const size_t zeros = text.find(".0 ") != std::string::npos ? text.find(".0 ") : text.find(".00 ");
  return zeros == std::string::npos ? text : text.substr(0, zeros) + text.substr(text.find(' '));
}

// Along the upper edge in steps, and back along the lower edge.
std::string layer_path(const Frame& frame, const std::vector<double>& positions, double x_end,
                       const std::vector<double>& lower, const std::vector<double>& upper) {
  std::string path =
      fmt::format("M{} {}", place(frame.x()(positions.front())), place(frame.y()(upper.front())));
  for (size_t index = 1; index < positions.size(); ++index)
    path += fmt::format("H{}V{}", place(frame.x()(positions[index])), place(frame.y()(upper[index])));
  path += fmt::format("H{}V{}", place(frame.x()(x_end)), place(frame.y()(lower.back())));
  for (size_t index = positions.size(); index-- > 1;)
    path += fmt::format("H{}V{}", place(frame.x()(positions[index])), place(frame.y()(lower[index - 1])));
  return path + fmt::format("H{}Z", place(frame.x()(positions.front())));
}

std::string draw_layers(const AreaChart& chart, const Frame& frame) {
  std::string drawn;
  std::vector<double> lower(chart.positions.size(), 0);
  for (const Layer& layer : chart.layers) {
    std::vector<double> upper = lower;
    for (size_t index = 0; index < upper.size(); ++index) upper[index] += layer.values[index];
    drawn += fmt::format("<path class=\"area {}\" d=\"{}\"/>", layer.css_class,
                         layer_path(frame, chart.positions, chart.x_high, lower, upper));
    lower = std::move(upper);
  }
  return drawn;
}

std::string draw_bands(const AreaChart& chart, const Frame& frame) {
  std::string drawn;
  for (const Band& band : chart.bands) {
    const double from = frame.x()(band.from), to = frame.x()(band.to);
    drawn += fmt::format(
        "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"5\"><title>{}</title></rect>",
        band.css_class, place(from), place(frame.bottom() + 1), place(to - from), escape(band.name));
  }
  return drawn;
}

std::string draw_peak(const Mark& peak, const Frame& frame) {
  const double x = frame.x()(peak.x), y = frame.y()(peak.y);
  const bool to_the_left = x > (frame.left() + frame.right()) / 2;
  return fmt::format(
      "<path class=\"peak-line\" d=\"M{} {}V{}\"/><circle class=\"peak-dot\" cx=\"{}\" cy=\"{}\" r=\"4\"/>"
      "<text class=\"peak-text\" x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>",
      place(x), place(frame.bottom()), place(y), place(x), place(y), place(x + (to_the_left ? -9 : 9)),
      place(y - 7), to_the_left ? "end" : "start", escape(peak.text));
}

Hover hover_of(const AreaChart& chart, const Frame& frame) {
  Hover hover;
  for (size_t index = 0; index < chart.positions.size(); ++index) {
    std::string text;
    double total = 0;
    for (const Layer& layer : chart.layers) {
      total += layer.values[index];
      if (layer.values[index] > 0)
        text = fmt::format("\n{} {}", layer.name, bytes_text(layer.values[index])) + text;
    }
    hover.places.push_back(frame.x()(chart.positions[index]));
    hover.texts.push_back("live " + bytes_text(total) + text);
  }
  return hover;
}

}  // namespace

std::string area_chart(const AreaChart& chart) {
  const Frame frame(chart.width, chart.height, {0, chart.x_high}, {0, chart.bytes_high * 1.12});
  std::string content = frame.axes({linear_ticks(0, chart.x_high, 9), tick_text, chart.x_title},
                                   {byte_ticks(chart.bytes_high * 1.12, 5), bytes_text, ""});
  if (!chart.positions.empty()) content += draw_layers(chart, frame);
  content += draw_bands(chart, frame);
  if (chart.peak) content += draw_peak(*chart.peak, frame);
  return frame.svg(chart.label, content, hover_of(chart, frame).attributes());
}

}  // namespace muster::report
