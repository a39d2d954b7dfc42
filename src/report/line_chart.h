// Lines over a common x: loss, throughput, norms.
#pragma once
#include <string>
#include <vector>

#include "report/scale.h"
#include "report/thin.h"

namespace muster::report {

struct Series {
  std::string name;       // in the legend
  std::string css_class;  // "series-1", ...
  std::vector<Point> points;
  bool dots = false;  // each is marked, where they are few
};

struct LineChart {
  std::string label;  // what it shows, for a screen reader
  std::vector<Series> series;
  std::string x_title, y_title;
  bool logarithmic_x = false, logarithmic_y = false;
  bool from_zero = false;  // the y axis starts at 0
  double width = 1060, height = 320;
  std::vector<double> marks;  // x of events (skipped updates), marked on the axis
};

// A value that is not finite is a gap in its line. Long series are thinned.
std::string line_chart(const LineChart& chart);

}  // namespace muster::report
