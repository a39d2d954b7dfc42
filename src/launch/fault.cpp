#include "launch/fault.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <sstream>

#include "base/error.h"

namespace muster::launch {
namespace {

constexpr const char* kVariable = "MUSTER_FAULT";

[[noreturn]] void refuse(const std::string& text) {
  throw UserError({kVariable, text, "must read rank=R,step=S,phase=NAME,action=ACTION",
                   "actions: exit:CODE, kill, stop, throw, ignore-sigterm"});
}

int64_t parse_number(const std::string& digits, const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) refuse(text);
  return number;
}

}  // namespace

Fault::Plan Fault::parse(const std::string& text, int64_t& rank) {
  Plan plan;
  std::istringstream fields(text);
  for (std::string field; std::getline(fields, field, ',');) {
    const size_t equals = field.find('=');
    if (equals == std::string::npos) refuse(text);
    const std::string key = field.substr(0, equals), value = field.substr(equals + 1);
    if (key == "rank")
      rank = parse_number(value, text);
    else if (key == "step")
      plan.step = parse_number(value, text);
    else if (key == "phase")
      plan.phase = value;
    else if (key == "action")
      plan.action = value;
    else
      refuse(text);
  }
  if (plan.action.starts_with("exit:")) {
    plan.code = static_cast<int>(parse_number(plan.action.substr(5), text));
    plan.action = "exit";
  }
  return plan;
}

Fault Fault::from(const Environment& environment, int64_t rank) {
  const std::optional<std::string> text = environment(kVariable);
  Fault fault;
  if (!text || text->empty()) return fault;
  int64_t chosen = -1;
  Plan plan = parse(*text, chosen);
  bool known = false;
  for (const char* action : {"exit", "kill", "stop", "throw", "ignore-sigterm"})
    known |= plan.action == action;
  if (!known || chosen < 0) refuse(*text);
  if (chosen == rank) fault.plan_ = std::move(plan);
  return fault;
}

void Fault::at(Phase phase, int64_t step) {
  if (!plan_ || step != plan_->step || (!plan_->phase.empty() && plan_->phase != to_string(phase))) return;
  const Plan plan = *std::exchange(plan_, std::nullopt);
  if (plan.action == "exit") ::_exit(plan.code);
  if (plan.action == "kill") ::raise(SIGKILL);
  if (plan.action == "stop") ::raise(SIGSTOP);
  if (plan.action == "throw")
    throw Bug(fmt::format("{} at step {} in {}", kVariable, step, to_string(phase)));
  if (plan.action == "ignore-sigterm") ::signal(SIGTERM, SIG_IGN);
}

}  // namespace muster::launch
