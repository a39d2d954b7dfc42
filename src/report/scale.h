// From values to places on a picture, and the round values that are written beside an axis.
#pragma once
#include <string>
#include <vector>

namespace muster::report {

struct Scale {
  double low = 0, high = 1;  // values
  double from = 0, to = 1;   // where they are drawn
  bool logarithmic = false;  // low > 0 then
  double operator()(double value) const;
};

// Round values (1, 2 or 5 times a power of ten) within [low, high], about `about` of them.
std::vector<double> linear_ticks(double low, double high, int about);
// Powers of ten within [low, high], with 2 and 5 times them where there are few. low > 0.
std::vector<double> logarithmic_ticks(double low, double high);
// Round in binary units (1, 2, 4, ... times a power of 1024) within [0, high].
std::vector<double> byte_ticks(double high, int about);

// Short and exact enough to tell neighbours apart: 0.5, 20, 12,000, 3e-4.
std::string tick_text(double value);

// The smallest range with some air that holds all values; never empty.
struct Range {
  double low, high;
};
Range range_of(const std::vector<double>& values, bool logarithmic);

}  // namespace muster::report
