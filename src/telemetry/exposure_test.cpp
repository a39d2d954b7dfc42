#include "telemetry/exposure.h"

#include <gtest/gtest.h>

namespace muster::telemetry {
namespace {

// A message of `exposed` seconds among five operators, of which the second and the fourth have FLOPs.
MessageEvent message(size_t issued_after, size_t needed_after, double exposed,
                     const char* op = "all_gather") {
  MessageEvent event;
  event.axis = "data";
  event.op = op;
  event.issued_after = issued_after, event.needed_after = needed_after;
  event.issued_seconds = 10, event.done_seconds = 12, event.exposed_seconds = exposed;
  return event;
}

StepRecord record_of(std::vector<MessageEvent> messages) {
  StepRecord record;
  for (int at = 0; at < 5; ++at) {
    OpEvent op;
    op.name = "op" + std::to_string(at);
    op.flops = at % 2;
    record.ops.push_back(op);
  }
  record.messages = std::move(messages);
  return record;
}

std::string why(const MessageEvent& event) {
  return exposures(record_of({event})).at(0).parts.at(0).why;
}

TEST(Exposure, TheCauseIsWorkedOutFromWhatStandsBetween) {
  EXPECT_EQ(why(message(0, 1, 1)), to_string(Why::first));
  EXPECT_EQ(why(message(0, 2, 1)), to_string(Why::longer)) << "one product stands between";
  EXPECT_EQ(why(message(2, 3, 1)), to_string(Why::at_once));
  EXPECT_EQ(why(message(2, 4, 1)), to_string(Why::longer));
  EXPECT_EQ(why(message(4, 5, 1)), to_string(Why::last));
  EXPECT_EQ(why(message(3, 5, 1)), to_string(Why::longer)) << "the last product was still to come";
}

TEST(Exposure, SumsByKindAndCauseWithThePlaceOfTheLongest) {
  const auto all = exposures(record_of({message(0, 1, 2), message(2, 4, 0.25), message(2, 4, 0.5),
                                        message(0, 4, 0), message(0, 2, 1, "send")}));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].count, 4);
  EXPECT_EQ(all[0].link_seconds, 8);
  EXPECT_EQ(all[0].exposed_seconds, 2.75);
  EXPECT_EQ(all[0].exposed_share(), 2.75 / 8);
  ASSERT_EQ(all[0].parts.size(), 2u) << "what is hidden has no cause";
  EXPECT_EQ(all[0].parts[0].why, to_string(Why::first));
  EXPECT_EQ(all[0].parts[1].count, 2);
  EXPECT_EQ(all[0].parts[1].seconds, 0.75);
  EXPECT_EQ(all[0].parts[1].where, "op4");
  EXPECT_EQ(all[1].op, "send");
}

TEST(Exposure, ARehearsalHasNoTimesAndNothingExposed) {
  StepRecord record = record_of({message(0, 1, 0)});
  record.messages[0].issued_seconds = record.messages[0].done_seconds = 0;
  const Exposure none = exposures(record).at(0);
  EXPECT_EQ(none.exposed_share(), 0);
  EXPECT_TRUE(none.parts.empty());
}

}  // namespace
}  // namespace muster::telemetry
