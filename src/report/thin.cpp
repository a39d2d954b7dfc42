#include "report/thin.h"

#include <algorithm>

namespace muster::report {

std::vector<Point> thin(const std::vector<Point>& points, size_t most) {
  if (points.size() <= most || most < 4) return points;
  const auto lower = [](const Point& left, const Point& right) { return left.second < right.second; };
  const size_t stretches = (most - 2) / 2, inner = points.size() - 2;
  std::vector<Point> kept = {points.front()};
  for (size_t stretch = 0; stretch < stretches; ++stretch) {
    const auto from = points.begin() + 1 + static_cast<std::ptrdiff_t>(stretch * inner / stretches);
    const auto to = points.begin() + 1 + static_cast<std::ptrdiff_t>((stretch + 1) * inner / stretches);
    const auto [low, high] = std::minmax_element(from, to, lower);
    kept.push_back(std::min(*low, *high));
    if (low != high) kept.push_back(std::max(*low, *high));
  }
  kept.push_back(points.back());
  return kept;
}

std::vector<size_t> thin_by_largest(const std::vector<double>& sizes, size_t most) {
  const size_t stretches = std::min(most, sizes.size());
  std::vector<size_t> kept;
  for (size_t stretch = 0; stretch < stretches; ++stretch) {
    const auto from = sizes.begin() + static_cast<std::ptrdiff_t>(stretch * sizes.size() / stretches);
    const auto to = sizes.begin() + static_cast<std::ptrdiff_t>((stretch + 1) * sizes.size() / stretches);
    kept.push_back(static_cast<size_t>(std::max_element(from, to) - sizes.begin()));
  }
  return kept;
}

}  // namespace muster::report
