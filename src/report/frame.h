// The part that all charts share: a plot area with its axes, grid and titles, as SVG. Colours come from the
// page's style sheet by class, so that a chart follows the page's light or dark.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "report/scale.h"

namespace muster::report {

struct Axis {
  std::vector<double> ticks;
  std::function<std::string(double)> text = tick_text;
  std::string title;
};

class Frame {
 public:
  Frame(double width, double height, Range x, Range y, bool logarithmic_x = false,
        bool logarithmic_y = false);
  const Scale& x() const { return x_; }
  const Scale& y() const { return y_; }
  double left() const { return x_.from; }
  double right() const { return x_.to; }
  double top() const { return y_.to; }
  double bottom() const { return y_.from; }

  // Grid lines, tick texts and titles.
  std::string axes(const Axis& horizontal, const Axis& vertical) const;
  // The whole picture: `label` says to a screen reader what it shows, `attributes` goes into the tag.
  std::string svg(const std::string& label, const std::string& content,
                  const std::string& attributes = "") const;

 private:
  double width_, height_;
  Scale x_, y_;
};

// What is said when the pointer is near a place: parallel lists of places (in the picture) and texts.
struct Hover {
  std::vector<double> places;
  std::vector<std::string> texts;
  // As attributes of the svg tag, read by the page's script.
  std::string attributes() const;
};

// A number for SVG: a tenth of a pixel is enough.
std::string place(double value);

}  // namespace muster::report
