// One statement that was put to the proof: what was expected, what was measured, how far apart they may be.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace muster::verify {

struct Check {
  std::string name;
  bool passed = false;
  Json expected, measured;
  Json tolerance;  // relative; 0 for what must be equal
  // How far apart they are, relative as the tolerance is; of what must be equal not told.
  std::optional<double> distance = {};
};

// Equal, exactly.
Check exactly(std::string name, Json expected, Json measured);
// |measured - expected| <= tolerance * |expected|.
Check closely(std::string name, double expected, double measured, double tolerance);

bool all_passed(const std::vector<Check>& checks);
// {"checks": [...], "passed": ...}, as `muster verify --json` prints it.
Json to_json(const std::vector<Check>& checks);
// For a person: every failed check, and the others by group with their worst distance.
std::string to_text(const std::vector<Check>& checks);

}  // namespace muster::verify
