#include "telemetry/step_record.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace muster::telemetry {
namespace {

// Two layers: 100 bytes of parameters at the start, activations come and go, one scratch.
StepRecord small_record() {
  StepRecord record;
  record.live_at_start[0] = 100;
  record.memory = {{50, Category::activations},  {80, Category::scratch},     {20, Category::temporary},
                   {-80, Category::scratch},     {-20, Category::temporary},  {60, Category::activations},
                   {-50, Category::activations}, {-60, Category::activations}};
  record.ops = {{"matmul", "layer 0", "forward", 1000, 64, 0.5, 0.25, 3},
                {"rms_norm", "layer 1", "forward", 10, 32, 0.75, 0.25, 6},
                {"matmul", "layer 1", "backward", 2000, 64, 1.0, 0.5, 7}};
  record.messages = {{"data", "all_reduce", 400, 2, 0, 2, 3, 1.0, 1.5, 1.4, 0.1},
                     {"data", "all_gather", 80, 2, 1, 3, 3, 1.5, 1.6, 1.6, 0},
                     {"data", "all_reduce", 4, 2, 2, 3, 3, 1.6, 1.7, 1.7, 0}};
  record.spans = {{"forward", "host", 0.5, 0.5}};
  return record;
}

TEST(StepRecord, TotalsAreByAxisAndOperationInOrderOfAppearance) {
  const std::vector<MessageTotal> expected = {{"data", "all_reduce", 2, 404}, {"data", "all_gather", 1, 80}};
  EXPECT_EQ(small_record().message_totals(), expected);
  EXPECT_EQ(small_record().hardware_flops(), 3010);
}

TEST(StepRecord, PeakLeavesScratchOutAndHasAPlace) {
  const StepRecord record = small_record();
  const Peak peak = find_peak(record);
  EXPECT_EQ(peak.bytes, 210);
  EXPECT_EQ(peak.event, 5u);
  EXPECT_FALSE(peak.at_start);
  EXPECT_EQ(peak.by_category[static_cast<int>(Category::activations)], 110);
  EXPECT_EQ(peak.by_category[static_cast<int>(Category::parameters)], 100);
  EXPECT_EQ(scratch_peak(record), 80);
  EXPECT_EQ(record.place_of(peak.event), "layer 1, rms_norm, forward");
  EXPECT_EQ(record.place_of(6), "layer 1, matmul, backward");
  EXPECT_EQ(record.place_of(7), "after the last operator");
}

// The host's account is another: what lives there is told, and is in no peak.
TEST(StepRecord, PeakIsOfTheDevice) {
  StepRecord record = small_record();
  record.live_at_start[static_cast<int>(Category::host_optimizer)] = 1000;
  record.memory.insert(record.memory.begin() + 5, {30, Category::host_optimizer});
  const Peak peak = find_peak(record);
  EXPECT_EQ(peak.bytes, 210);
  EXPECT_EQ(peak.event, 6u);
  EXPECT_EQ(peak.by_category[static_cast<int>(Category::host_optimizer)], 1030);
  EXPECT_FALSE(is_persistent(Category::host_optimizer));
}

TEST(StepRecord, PeakAtTheStartIsSaidSo) {
  StepRecord record;
  record.live_at_start[0] = 7;
  record.memory = {{-3, Category::parameters}, {2, Category::input}};
  EXPECT_TRUE(find_peak(record).at_start);
  EXPECT_EQ(find_peak(record).bytes, 7);
  EXPECT_EQ(record.place_of(1), "") << "no operator knows where it stood";
}

TEST(StepRecord, PersistentCategories) {
  int persistent = 0;
  for (int category = 0; category < kCategoryCount; ++category)
    persistent += is_persistent(static_cast<Category>(category));
  EXPECT_EQ(persistent, 4);
  EXPECT_STREQ(to_string(Category::master_parameters), "master_parameters");
  EXPECT_STREQ(to_string(Category::other), "other");
}

TEST(StepRecord, JsonRoundTrip) {
  const StepRecord record = small_record();
  const std::string text = to_json(record).dump();
  const StepRecord back = step_record_from_json(parse_json(text, "record"), "record");
  EXPECT_EQ(to_json(back).dump(), text);
  EXPECT_EQ(back.ops.at(1).where, "layer 1");
  EXPECT_EQ(back.ops.at(2).memory_after, 7u);
  EXPECT_EQ(back.messages.at(0).exposed_seconds, 0.1);
  EXPECT_EQ(back.memory.at(1).category, Category::scratch);
  EXPECT_EQ(back.live_at_start[0], 100);
}

TEST(StepRecord, JsonStaysCompact) {
  StepRecord record;
  record.ops.assign(1000, {"matmul", "layer 3 attention", "forward", 1e9, 4096, 0, 0, 7});
  record.memory.assign(10000, {1 << 20, Category::activations});
  EXPECT_LT(to_json(record).dump().size(), 1000u * 40 + 10000u * 14 + 1000u);
}

TEST(StepRecord, JsonFromOutsideIsChecked) {
  const auto refuse = [](const char* what, auto&& spoil) {
    Json json = to_json(small_record());
    spoil(json);
    EXPECT_THROW(step_record_from_json(json, "record"), WorldError) << what;
  };
  refuse("format", [](Json& json) { json["format"] = "other"; });
  refuse("version", [](Json& json) { json["version"] = 1; });
  refuse("no list", [](Json& json) { json.erase("memory"); });
  refuse("short row", [](Json& json) { json["memory"][0].erase(1); });
  refuse("unknown category", [](Json& json) { json["memory"][0][1] = kCategoryCount; });
  refuse("unknown name", [](Json& json) { json["ops"][0][0] = 1000; });
  refuse("text for a number", [](Json& json) { json["ops"][0][3] = "many"; });
  refuse("negative count", [](Json& json) { json["ops"][0][7] = -1; });
  refuse("names", [](Json& json) { json["names"][0] = 3; });
  EXPECT_THROW(step_record_from_json(Json(3), "record"), WorldError);
}

}  // namespace
}  // namespace muster::telemetry
