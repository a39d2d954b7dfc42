#include "estimate/kinds/options.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/units.h"

namespace muster::estimate {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

std::string joined(std::span<const char* const> names) {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

const OptionRow* find(std::span<const OptionRow> rows, const std::string& name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const OptionRow& r) { return name == r.name; });
  return found == rows.end() ? nullptr : &*found;
}

std::string suggestion(std::span<const OptionRow> rows, const std::string& name) {
  std::vector<std::string> names;
  for (const OptionRow& row : rows) names.emplace_back(row.name);
  const std::string near = nearest(name, names);
  return near.empty() ? "--help lists the options" : "did you mean " + near + "?";
}

}  // namespace

std::string nearest(const std::string& name, const std::vector<std::string>& names) {
  std::string best;
  size_t least = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : names) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < least) least = distance, best = candidate;
  }
  return best;
}

Options::Options(std::span<const OptionRow> rows, const std::vector<std::string>& words) {
  for (size_t at = 0; at < words.size(); ++at) {
    const size_t equals = words[at].starts_with("--") ? words[at].find('=') : std::string::npos;
    const std::string name = words[at].substr(0, equals);
    const OptionRow* row = find(rows, name);
    const bool value_follows = at + 1 < words.size() && !words[at + 1].starts_with("--");
    if (!row) {
      problems_.add(name, "", "is not an option here", suggestion(rows, name));
      if (equals == std::string::npos && name.starts_with("--") && value_follows) ++at;
      continue;
    }
    std::string value;
    if (equals != std::string::npos) {
      value = words[at].substr(equals + 1);
      if (!row->value) problems_.add(name, value, "takes no value", "leave the value out");
    } else if (row->value && value_follows) {
      value = words[++at];
    } else if (row->value) {
      problems_.add(name, "", "needs a value", fmt::format("write {} {}", name, row->value));
    }
    if (!values_.emplace(name, value).second) problems_.add(name, value, "is given twice", "keep one");
  }
}

std::optional<std::string> Options::take(const std::string& name) {
  read_.insert(name);
  const auto found = values_.find(name);
  if (found == values_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

void Options::require(const std::string& name) {
  if (!given(name)) problems_.add(name, "", "is needed", "give it");
}

std::optional<double> Options::number(const std::string& name, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value > 0 && value <= 1e18) return value;
  problems_.add(name, text, "must be a positive number",
                "write it without a unit: --help says which is meant");
  return std::nullopt;
}

bool Options::flag(const std::string& name) {
  read_.insert(name);
  return given(name);
}

std::optional<double> Options::quantity(const std::string& name) {
  const auto text = take(name);
  return text ? number(name, *text) : std::nullopt;
}

double Options::quantity(const std::string& name, double fallback) {
  return quantity(name).value_or(fallback);
}

double Options::required_quantity(const std::string& name) {
  require(name);
  return quantity(name, 1);
}

std::optional<int64_t> Options::count_up_to(const std::string& name, int64_t most) {
  const auto text = take(name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error == std::errc{} && end == text->data() + text->size() && value > 0 && value <= most) return value;
  problems_.add(name, *text, fmt::format("must be a whole number from 1 to {}", most), "correct it");
  return std::nullopt;
}

int64_t Options::required_count(const std::string& name) {
  require(name);
  return count(name, 1);
}

std::vector<double> Options::quantities(const std::string& name) {
  std::vector<double> values;
  const auto text = take(name);
  if (!text) return values;
  for (size_t at = 0; at <= text->size();) {
    const size_t end = std::min(text->find(',', at), text->size());
    if (const auto value = number(name, text->substr(at, end - at))) values.push_back(*value);
    at = end + 1;
  }
  return values;
}

std::optional<int64_t> Options::bytes(const std::string& name) {
  const auto text = take(name);
  if (!text) return std::nullopt;
  std::optional<int64_t> value;
  problems_.gather([&] { value = parse_bytes(*text, name); });
  if (value && *value == 0) problems_.add(name, *text, "must be more than nothing", "give a size");
  return value;
}

std::optional<std::string> Options::text(const std::string& name) {
  return take(name);
}

size_t Options::choice(const std::string& name, std::span<const char* const> names, size_t fallback) {
  const auto text = take(name);
  if (!text) return fallback;
  for (size_t at = 0; at < names.size(); ++at)
    if (*text == names[at]) return at;
  const std::string near = nearest(*text, {names.begin(), names.end()});
  problems_.add(name, *text, "must be one of " + joined(names),
                near.empty() ? "choose one" : "did you mean " + near + "?");
  return fallback;
}

void Options::finish() {
  for (const auto& [name, value] : values_)
    if (!read_.contains(name))
      problems_.add(name, value, "has no effect beside the other options", "leave it out");
  problems_.throw_if_any();
}

}  // namespace muster::estimate
