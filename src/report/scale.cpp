#include "report/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"

namespace muster::report {

double Scale::operator()(double value) const {
  const auto place = [this](double x) { return logarithmic ? std::log(x) : x; };
  const double span = place(high) - place(low);
  const double part = span > 0 ? (place(value) - place(low)) / span : 0.5;
  return from + part * (to - from);
}

namespace {

// The multiples of `step` within [low, high].
std::vector<double> multiples(double low, double high, double step) {
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9), last = std::floor(high / step + 1e-9);
  for (double index = first; index <= last && ticks.size() < 100; ++index)
    ticks.push_back(index * step + 0.0);  // -0 becomes 0
  return ticks;
}

}  // namespace

std::vector<double> linear_ticks(double low, double high, int about) {
  const double rough = (high - low) / about;
  if (!(rough > 0)) return {low};
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double lead = rough / power;
  return multiples(low, high, power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10));
}

std::vector<double> logarithmic_ticks(double low, double high) {
  const bool is_short = high / low < 200;
  std::vector<double> ticks;
  for (double power = std::pow(10, std::floor(std::log10(low))); power <= high * 1.0001; power *= 10)
    for (const double lead : {1., 2., 5.})
      if ((lead == 1 || is_short) && lead * power >= low * 0.9999 && lead * power <= high * 1.0001)
        ticks.push_back(lead * power);
  return ticks;
}

std::vector<double> byte_ticks(double high, int about) {
  if (!(high > 0)) return {0};
  return multiples(0, high, std::exp2(std::round(std::log2(high / about))));
}

std::string tick_text(double value) {
  const double size = std::abs(value);
  if (size >= 1e9) return fmt::format("{:.4g} B", value / 1e9);
  if (size >= 1e6) return fmt::format("{:.4g} M", value / 1e6);
  if (size >= 1e3 && value == std::round(value)) return format_exact(std::llround(value));
  if (size < 1e-3 && size > 0) {
    const double power = std::floor(std::log10(size) + 1e-9);
    return fmt::format("{:.3g}e{:.0f}", value / std::pow(10, power), power);
  }
  return fmt::format("{:.4g}", value);
}

Range range_of(const std::vector<double>& values, bool logarithmic) {
  double low = INFINITY, high = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value) || (logarithmic && value <= 0)) continue;
    low = std::min(low, value), high = std::max(high, value);
  }
  if (low > high) return logarithmic ? Range{1, 10} : Range{0, 1};
  if (logarithmic) return low == high ? Range{low / 2, high * 2} : Range{low / 1.1, high * 1.1};
  const double air = low == high ? std::max(std::abs(low) * 0.1, 1e-12) : (high - low) * 0.05;
  return {low - air, high + air};
}

}  // namespace muster::report
