#include "base/units.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "base/error.h"

namespace muster {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr Unit kUnits[] = {{"B", 1},    {"KiB", 1024.}, {"MiB", 1048576.}, {"GiB", 1073741824.},
                           {"KB", 1e3}, {"MB", 1e6},    {"GB", 1e9},       {"TB", 1e12},
                           {"", 1},     {"TiB", 0x1p40}};

std::string scaled(double value, const char* const (&suffixes)[5], double step) {
  int level = 0;
  while (std::abs(value) >= step && level < 4) value /= step, ++level;
  return fmt::format("{:.{}f} {}", value, std::abs(value) < 10 ? 2 : 1, suffixes[level]);
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  if (std::abs(bytes) < KiB) return fmt::format("{} B", bytes);
  return scaled(static_cast<double>(bytes), {"B", "KiB", "MiB", "GiB", "TiB"}, 1024);
}

int64_t parse_bytes(std::string_view text, const std::string& field) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view suffix = text.substr(end - text.data());
  while (!suffix.empty() && std::isspace(static_cast<unsigned char>(suffix.front()))) suffix.remove_prefix(1);
  for (const Unit& unit : kUnits) {
    double bytes = value * unit.bytes;
    if (error == std::errc{} && suffix == unit.name && bytes >= 0 && bytes < 9.2e18)
      return std::llround(bytes);
  }
  throw UserError({field, std::string(text), "must be a size such as \"10 GiB\" or \"25 MB\"",
                   "use a number with B, KiB, MiB, GiB, TiB, KB, MB, GB or TB"});
}

std::string format_count(double count) {
  if (std::abs(count) < 1000) return fmt::format("{:g}", count);
  return scaled(count, {"", "K", "M", "B", "T"}, 1000);
}

std::string format_exact(int64_t value) {
  std::string digits = std::to_string(value);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string format_seconds(double seconds) {
  if (seconds <= 0) return "0 s";
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

std::string format_flops(double flops) {
  static constexpr const char* names[] = {"FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP"};
  int level = 0;
  while (flops >= 1000 && level < 6) flops /= 1000, ++level;
  return fmt::format("{:.3g} {}", flops, names[level]);
}

}  // namespace muster
