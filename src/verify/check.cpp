#include "verify/check.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/table.h"

namespace muster::verify {
namespace {

// "gradient model.norm.weight" -> "gradient": checks of one kind share their first word.
std::string kind_of(const Check& check) {
  return check.name.substr(0, check.name.find(' '));
}

std::string figure(const Json& value) {
  if (value.is_number_float()) return fmt::format("{:.9g}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

Check exactly(std::string name, Json expected, Json measured) {
  const bool passed = expected == measured;
  return {std::move(name), passed, std::move(expected), std::move(measured), 0};
}

Check closely(std::string name, double expected, double measured, double tolerance) {
  const double apart = std::abs(measured - expected);
  const bool passed = apart <= tolerance * std::abs(expected);
  return {std::move(name), passed,    expected,
          measured,        tolerance, apart / std::max(std::abs(expected), 1e-300)};
}

bool all_passed(const std::vector<Check>& checks) {
  return !checks.empty() &&
         std::all_of(checks.begin(), checks.end(), [](const Check& c) { return c.passed; });
}

Json to_json(const std::vector<Check>& checks) {
  Json list = Json::array();
  for (const Check& check : checks) {
    list.push_back({{"name", check.name},
                    {"passed", check.passed},
                    {"expected", check.expected},
                    {"measured", check.measured},
                    {"tolerance", check.tolerance}});
    if (check.distance) list.back()["distance"] = *check.distance;
  }
  return {{"checks", list}, {"passed", all_passed(checks)}};
}

std::string to_text(const std::vector<Check>& checks) {
  Table passed({"proved", "checks", "passed", "farthest", "allowed"});
  for (auto first = checks.begin(); first != checks.end();) {
    const auto last =
        std::find_if(first, checks.end(), [&](const Check& c) { return kind_of(c) != kind_of(*first); });
    const auto good = std::count_if(first, last, [](const Check& c) { return c.passed; });
    const Check& farthest = *std::max_element(first, last, [](const Check& a, const Check& b) {
      return a.distance.value_or(0) < b.distance.value_or(0);
    });
    passed.add({kind_of(*first), std::to_string(last - first), std::to_string(good),
                farthest.distance ? fmt::format("{:.1e}", *farthest.distance) : "equal",
                farthest.distance ? fmt::format("{:.1e}", farthest.tolerance.get<double>()) : "equal"});
    first = last;
  }
  std::string text = passed.text();
  Table failed({"FAILED", "expected", "measured", "tolerance"});
  for (const Check& check : checks)
    if (!check.passed)
      failed.add({check.name, figure(check.expected), figure(check.measured), figure(check.tolerance)});
  if (!all_passed(checks)) text += "\n" + failed.text();
  return text + (all_passed(checks) ? "\npassed\n" : "\nFAILED\n");
}

}  // namespace muster::verify
