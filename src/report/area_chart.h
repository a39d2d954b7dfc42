// Layers stacked over one another along a program's order: live memory by category.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace muster::report {

struct Layer {
  std::string name, css_class;
  std::vector<double> values;  // one at each of `positions`, holding until the next
};
struct Band {  // a named stretch of x
  std::string name, css_class;
  double from = 0, to = 0;
};
struct Mark {
  double x = 0, y = 0;
  std::string text;
};

struct AreaChart {
  std::string label;
  std::vector<double> positions;  // ascending
  std::vector<Layer> layers;      // from the bottom up
  std::vector<Band> bands;
  std::optional<Mark> peak;
  double x_high = 1, bytes_high = 1;  // given, so that two charts have the same axes
  std::string x_title;
  double width = 1060, height = 280;
};

std::string area_chart(const AreaChart& chart);

}  // namespace muster::report
