#include "telemetry/trace.h"

#include <gtest/gtest.h>

#include <map>

namespace muster::telemetry {
namespace {

// Starts at 100 s of its clock; two messages overlap.
StepRecord timed_record() {
  StepRecord record;
  record.live_at_start[0] = 64;
  record.memory = {{32, Category::activations}, {16, Category::activations}, {-48, Category::activations}};
  record.ops = {{"matmul", "layer 0", "forward", 1000, 64, 100.0, 0.5, 1},
                {"matmul \"quoted\"", "layer 0", "backward", 2000, 64, 100.5, 1.0, 3}};
  record.messages = {{"data", "all_reduce", 400, 2, 0, 1, 2, 100.6, 101.2, 101.5, 0},
                     {"data", "all_reduce", 80, 2, 1, 1, 2, 100.8, 101.6, 101.5, 0.1}};
  record.spans = {{"forward", "host", 100.0, 0.5}};
  return record;
}

std::vector<Json> events_with(const Json& trace, const char* phase) {
  std::vector<Json> events;
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == phase) events.push_back(event);
  return events;
}

TEST(Trace, IsJsonWithOneProcessARankAndTimesFromZero) {
  const StepRecord record = timed_record();
  const Json trace = parse_json(chrome_trace({&record, &record}), "trace");
  const auto slices = events_with(trace, "X");
  ASSERT_EQ(slices.size(), 12u);
  EXPECT_EQ(slices[0]["name"], "matmul");
  EXPECT_EQ(slices[0]["ts"], 0.0);
  EXPECT_EQ(slices[0]["dur"], 0.5e6);
  EXPECT_EQ(slices[1]["name"], "matmul \"quoted\"");
  EXPECT_EQ(slices.back()["pid"], 1);
}

TEST(Trace, OverlappingMessagesStandInThreadsOfTheirOwn) {
  const StepRecord record = timed_record();
  const Json trace = parse_json(chrome_trace({&record}), "trace");
  std::map<int64_t, std::string> threads;
  for (const Json& event : events_with(trace, "M"))
    if (event["name"] == "thread_name") threads[event["tid"]] = event["args"]["name"];
  std::vector<std::string> where;
  for (const Json& slice : events_with(trace, "X"))
    if (slice["name"] == "all_reduce") where.push_back(threads.at(slice["tid"]));
  EXPECT_EQ(where, (std::vector<std::string>{"data axis", "data axis (2)"}));
}

TEST(Trace, WhatIsExposedStandsInATrackOfItsOwn) {
  const StepRecord record = timed_record();
  const Json trace = parse_json(chrome_trace({&record}), "trace");
  std::vector<Json> exposed;
  for (const Json& slice : events_with(trace, "X"))
    if (slice["name"] == "wait for all_reduce, data axis") exposed.push_back(slice);
  ASSERT_EQ(exposed.size(), 1u) << "the other one was hidden";
  EXPECT_NEAR(exposed[0]["ts"].get<double>(), 1.5e6, 1);
  EXPECT_NEAR(exposed[0]["dur"].get<double>(), 0.1e6, 1);
}

TEST(Trace, AFlowEndsInsideItsMessage) {
  const StepRecord record = timed_record();
  const Json trace = parse_json(chrome_trace({&record}), "trace");
  const auto starts = events_with(trace, "s"), ends = events_with(trace, "f");
  ASSERT_EQ(starts.size(), 2u);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(starts[1]["id"], ends[1]["id"]);
  EXPECT_NE(starts[0]["id"], starts[1]["id"]);
  EXPECT_NEAR(starts[0]["ts"].get<double>(), 0.6e6, 1);
  EXPECT_NEAR(ends[0]["ts"].get<double>(), 1.2e6, 1);
}

TEST(Trace, CountersHoldLiveBytesAfterEachOperator) {
  const StepRecord record = timed_record();
  const auto counters = events_with(parse_json(chrome_trace({&record}), "trace"), "C");
  ASSERT_EQ(counters.size(), 2u);
  EXPECT_EQ(counters[0]["args"]["parameters"], 64);
  EXPECT_EQ(counters[0]["args"]["activations"], 32);
  EXPECT_EQ(counters[1]["args"]["activations"], 0);
  EXPECT_EQ(counters[0]["ts"], 0.5e6) << "what an operator allocated is live at its end";
}

TEST(Trace, AnEmptyRecordIsATraceToo) {
  const StepRecord record;
  EXPECT_EQ(events_with(parse_json(chrome_trace({&record}), "trace"), "X").size(), 0u);
}

TEST(Trace, RowsReuseTheFirstThatIsFree) {
  EXPECT_EQ(rows_of({{0, 2}, {1, 3}, {2, 4}, {2.5, 2.6}}), (std::vector<size_t>{0, 1, 0, 2}));
  EXPECT_EQ(rows_of({{5, 6}, {0, 10}}), (std::vector<size_t>{1, 0}));
}

}  // namespace
}  // namespace muster::telemetry
