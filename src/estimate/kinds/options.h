// The words after `muster estimate KIND` as typed options. Every fault is kept, so that a person sees them
// all together: unknown options with the nearest name, missing and malformed values, numbers out of range,
// and options that were given but mean nothing beside the others.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace muster::estimate {

struct OptionRow {
  const char* name;   // "--gpus"
  const char* value;  // what the help calls its value; nullptr: a flag
  const char* help;
};

class Options {
 public:
  // Words are "--name value" or "--name=value".
  Options(std::span<const OptionRow> rows, const std::vector<std::string>& words);

  // Reading marks an option as meaningful. A malformed value is a problem and reads as the fallback.
  bool flag(const std::string& name);
  bool given(const std::string& name) const { return values_.contains(name); }
  // A whole number from 1 to `most`.
  static constexpr int64_t kMost = int64_t{1} << 30;
  std::optional<int64_t> count_up_to(const std::string& name, int64_t most);
  std::optional<int64_t> count(const std::string& name) { return count_up_to(name, kMost); }
  int64_t count(const std::string& name, int64_t fallback) { return count(name).value_or(fallback); }
  int64_t required_count(const std::string& name);
  // A problem where it is not given.
  void require(const std::string& name);
  // A positive number up to 10^18.
  double quantity(const std::string& name, double fallback);
  std::optional<double> quantity(const std::string& name);
  double required_quantity(const std::string& name);
  // Positive numbers with commas between.
  std::vector<double> quantities(const std::string& name);
  // "192 GiB" and the like.
  std::optional<int64_t> bytes(const std::string& name);
  std::optional<std::string> text(const std::string& name);
  // The place in `names` of the value; `fallback` where it is not given.
  size_t choice(const std::string& name, std::span<const char* const> names, size_t fallback);

  Problems& problems() { return problems_; }
  // Options that were given and not read are problems too; throws all of them.
  void finish();

 private:
  std::optional<std::string> take(const std::string& name);
  std::optional<double> number(const std::string& name, const std::string& text);

  std::map<std::string, std::string> values_;
  std::set<std::string> read_;
  Problems problems_;
};

// The name nearest to a misspelt one, by edit distance; empty where none is near.
std::string nearest(const std::string& name, const std::vector<std::string>& names);

}  // namespace muster::estimate
