#include "verify/communication.h"

#include "base/error.h"

namespace muster::verify {
namespace {

Json totals(const telemetry::StepRecord& record) {
  Json json = Json::array();
  for (const telemetry::MessageTotal& total : record.message_totals())
    json.push_back({{"axis", total.axis}, {"op", total.op}, {"count", total.count}, {"bytes", total.bytes}});
  return json;
}

Json in_order(const telemetry::StepRecord& record) {
  Json json = Json::array();
  for (const telemetry::MessageEvent& message : record.messages)
    json.push_back(fmt::format("{} {} {} bytes of {}, after operator {}, needed after {}", message.axis,
                               message.op, message.bytes, message.group_size, message.issued_after,
                               message.needed_after));
  return json;
}

}  // namespace

std::vector<Check> communication(const telemetry::StepRecord& rehearsed, const Witness& rank) {
  const auto name = [&](const char* what) {
    return fmt::format("communication rank {} {}", rank.rank, what);
  };
  return {exactly(name("totals"), totals(rehearsed), totals(rank.record)),
          exactly(name("messages in order"), in_order(rehearsed), in_order(rank.record))};
}

}  // namespace muster::verify
