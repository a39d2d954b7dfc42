// Figures as tables print them.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/units.h"

namespace muster::estimate {

// `value` with `digits` decimals, rounded from its first 12 significant digits, so that the last bits of the
// arithmetic do not decide a tie.
inline std::string decimal(double value, int digits) {
  const double clean = std::strtod(fmt::format("{:.12g}", value).c_str(), nullptr);
  return fmt::format("{:.{}f}", clean, digits);
}

inline std::string percent(double share, int digits = 1) {
  return decimal(100 * share, digits);
}
inline std::string gib(int64_t bytes, int digits = 1) {
  return decimal(static_cast<double>(bytes) / static_cast<double>(GiB), digits);
}
inline std::string gb(double bytes, int digits = 1) {
  return decimal(bytes / 1e9, digits);
}
inline std::string mib(double bytes, int digits) {
  return decimal(bytes / static_cast<double>(MiB), digits);
}
// Without needless zeros: 0.25, 1024.
inline std::string plain(double value) {
  return fmt::format("{:.12g}", value);
}

}  // namespace muster::estimate
