#include "report/frame.h"

#include <fmt/format.h>

#include "base/json.h"
#include "report/html.h"

namespace muster::report {

namespace {
constexpr double kLeft = 62, kRight = 14, kTop = 14, kBottom = 40;
}

std::string place(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

Frame::Frame(double width, double height, Range x, Range y, bool logarithmic_x, bool logarithmic_y)
    : width_(width),
      height_(height),
      x_{x.low, x.high, kLeft, width - kRight, logarithmic_x},
      y_{y.low, y.high, height - kBottom, kTop, logarithmic_y} {}

std::string Frame::axes(const Axis& horizontal, const Axis& vertical) const {
  std::string lines, texts;
  for (const double tick : vertical.ticks) {
    const std::string y = place(y_(tick));
    lines += fmt::format("M{} {}H{}", place(left()), y, place(right()));
    texts += fmt::format("<text x=\"{}\" y=\"{}\" dy=\".32em\" text-anchor=\"end\">{}</text>",
                         place(left() - 8), y, escape(vertical.text(tick)));
  }
  for (const double tick : horizontal.ticks)
    texts += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>", place(x_(tick)),
                         place(bottom() + 16), escape(horizontal.text(tick)));
  texts += fmt::format("<text class=\"title\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                       place(right()), place(height_ - 6), escape(horizontal.title));
  if (!vertical.title.empty())
    texts += fmt::format(
        "<text class=\"title\" transform=\"translate(12 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        place((top() + bottom()) / 2), escape(vertical.title));
  return fmt::format(
      "<path class=\"grid\" d=\"{}\"/><path class=\"axis\" d=\"M{} {}H{}\"/><g class=\"ticks\">{}</g>", lines,
      place(left()), place(bottom()), place(right()), texts);
}

std::string Frame::svg(const std::string& label, const std::string& content,
                       const std::string& attributes) const {
  return fmt::format("<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\"{}>{}</svg>", escape(label),
                     place(width_), place(height_), attributes.empty() ? "" : " " + attributes, content);
}

std::string Hover::attributes() const {
  Json at = Json::array();
  for (const double value : places) at.push_back(Json::parse(place(value)));
  const std::string said = Json(texts).dump(-1, ' ', false, Json::error_handler_t::replace);
  return fmt::format("data-at=\"{}\" data-say=\"{}\"", escape(at.dump()), escape(said));
}

}  // namespace muster::report
