// The slowest of many ranks sets the step.
#pragma once
#include <cmath>
#include <cstdint>

namespace muster::estimate {

// sqrt(2 ln N): how many standard deviations the largest of N independent normal times lies above the mean,
// as an upper bound that it approaches slowly (Cramer, "Mathematical methods of statistics", 1946, section
// 28.6, leading term). 15 % too high at N = 1024. For a lasting slow rank or heavy tails it says too little.
inline double largest_normal_bound(int64_t ranks) {
  return std::sqrt(2 * std::log(static_cast<double>(ranks)));
}

// The expectation itself, from E max = integral of (1 - Phi^N) over x > 0 less that of Phi^N over x < 0.
inline double largest_normal_expected(int64_t ranks) {
  const auto below = [ranks](double x) {
    return std::pow(0.5 * std::erfc(-x / std::sqrt(2.0)), static_cast<double>(ranks));
  };
  constexpr double step = 1e-3, end = 10;
  double sum = 0;
  for (double x = step / 2; x < end; x += step) sum += (1 - below(x) - below(-x)) * step;
  return sum;
}

// A synchronous step's time against a rank's mean: 1 + sigma sqrt(2 ln N), sigma relative to the mean.
inline double straggler_factor(double relative_sigma, int64_t ranks) {
  return 1 + relative_sigma * largest_normal_bound(ranks);
}

}  // namespace muster::estimate
