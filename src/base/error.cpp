#include "base/error.h"

namespace muster {
namespace {

std::string join(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    if (!text.empty()) text += "\n";
    text += to_string(problem);
  }
  return text;
}

}  // namespace

std::string to_string(const Problem& problem) {
  std::string text = problem.field;
  if (!problem.value.empty()) text += " = " + problem.value;
  text += ": " + problem.rule;
  if (!problem.remedy.empty()) text += "; " + problem.remedy;
  return text;
}

UserError::UserError(std::vector<Problem> problems)
    : std::runtime_error(join(problems)), problems_(std::move(problems)) {}

void Problems::add(std::string field, std::string value, std::string rule, std::string remedy) {
  list_.push_back({std::move(field), std::move(value), std::move(rule), std::move(remedy)});
}

void Problems::add(const UserError& error) {
  list_.insert(list_.end(), error.problems().begin(), error.problems().end());
}

void Problems::throw_if_any() const {
  if (!list_.empty()) throw UserError(list_);
}

void throw_bug(const char* expression, const char* file, int line, const std::string& detail) {
  throw Bug(
      fmt::format("{}:{}: check failed: {}{}{}", file, line, expression, detail.empty() ? "" : ": ", detail));
}

}  // namespace muster
