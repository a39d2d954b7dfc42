#include "spec/config/rules.h"

#include <algorithm>

#include "spec/config/value.h"

namespace muster::spec {

bool is_given(const Job& job, const std::string& name) {
  const auto found = job.origins.find(name);
  if (found == job.origins.end()) return false;
  const std::string& origin = found->second;
  return origin.starts_with("file ") || origin.starts_with("environment ") || origin == "command line";
}

Rules::Rules(Job& job, Problems& problems, std::set<std::string> distrusted)
    : job_(job), problems_(problems), distrusted_(std::move(distrusted)) {}

void Rules::require(bool holds, std::initializer_list<const char*> names, const std::string& rule,
                    const std::string& remedy) {
  const bool is_readable = std::ranges::none_of(names, [&](const char* name) { return distrusts(name); });
  if (!holds && is_readable) refuse(*names.begin(), rule, remedy);
}

void Rules::refuse(const std::string& name, const std::string& rule, const std::string& remedy) {
  const std::string where = is_given(job_, name) ? fmt::format(" ({})", job_.origins.at(name)) : "";
  problems_.add(name, to_toml(field_named(name), job_), rule, remedy + where);
  distrusted_.insert(name);
}

}  // namespace muster::spec
