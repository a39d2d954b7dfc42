#include "telemetry/exposure.h"

#include <algorithm>

namespace muster::telemetry {
namespace {

// FLOPs of the operators before each place in the record.
std::vector<double> flops_before(const StepRecord& record) {
  std::vector<double> sums{0};
  for (const OpEvent& op : record.ops) sums.push_back(sums.back() + op.flops);
  return sums;
}

Why why_exposed(const MessageEvent& message, const std::vector<double>& before) {
  const size_t most = before.size() - 1;
  const double at_issue = before[std::min(message.issued_after, most)],
               at_need = before[std::min(message.needed_after, most)];
  if (at_need == 0) return Why::first;
  if (at_issue == before.back()) return Why::last;
  return at_issue == at_need ? Why::at_once : Why::longer;
}

std::string text_of(const StepRecord& record, size_t op) {
  if (op >= record.ops.size()) return "the end of the step";
  const OpEvent& at = record.ops[op];
  return (at.where.empty() ? "" : at.where + ", ") + at.name + (at.phase.empty() ? "" : ", " + at.phase);
}

Exposure& exposure_of(std::vector<Exposure>& all, const MessageEvent& message) {
  const auto known = std::ranges::find_if(
      all, [&](const Exposure& each) { return each.axis == message.axis && each.op == message.op; });
  if (known != all.end()) return *known;
  Exposure& added = all.emplace_back();
  added.axis = message.axis;
  added.op = message.op;
  return added;
}

ExposedPart& part_of(Exposure& exposure, Why why) {
  const auto known = std::ranges::find(exposure.parts, to_string(why), &ExposedPart::why);
  if (known != exposure.parts.end()) return *known;
  exposure.parts.push_back({to_string(why), 0, 0, ""});
  return exposure.parts.back();
}

// What stood still longest for a message of this kind and cause.
std::string longest_held_up(const StepRecord& record, const std::vector<double>& before,
                            const Exposure& exposure, const ExposedPart& part) {
  const MessageEvent* longest = nullptr;
  for (const MessageEvent& message : record.messages)
    if (message.axis == exposure.axis && message.op == exposure.op &&
        part.why == to_string(why_exposed(message, before)) &&
        (!longest || message.exposed_seconds > longest->exposed_seconds))
      longest = &message;
  return text_of(record, longest->needed_after);
}

}  // namespace

const char* to_string(Why why) {
  switch (why) {
    case Why::first:
      return "the step's first: nothing had been computed yet";
    case Why::last:
      return "the step's last: nothing was left to compute";
    case Why::at_once:
      return "needed at once: nothing to compute stood between";
    case Why::longer:
      break;
  }
  return "longer than the work beside it";
}

std::vector<Exposure> exposures(const StepRecord& record) {
  const std::vector<double> before = flops_before(record);
  std::vector<Exposure> all;
  for (const MessageEvent& message : record.messages) {
    Exposure& exposure = exposure_of(all, message);
    ++exposure.count;
    exposure.link_seconds += message.done_seconds - message.issued_seconds;
    exposure.exposed_seconds += message.exposed_seconds;
    if (message.exposed_seconds <= 0) continue;
    ExposedPart& part = part_of(exposure, why_exposed(message, before));
    ++part.count;
    part.seconds += message.exposed_seconds;
  }
  for (Exposure& exposure : all) {
    for (ExposedPart& part : exposure.parts) part.where = longest_held_up(record, before, exposure, part);
    std::ranges::sort(exposure.parts, std::greater<>(), &ExposedPart::seconds);
  }
  return all;
}

}  // namespace muster::telemetry
