#include "telemetry/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "telemetry/progress_line.h"

namespace muster::telemetry {
namespace {

using ::testing::HasSubstr;

RunSummary small_summary() {
  RunSummary summary;
  summary.model_name = "tiny";
  summary.family = "llama";
  summary.parameters = 56132096;
  summary.model = {{"hidden_size", 512}};
  summary.world_size = 2;
  summary.steps = 20, summary.steps_planned = 20;
  summary.first_loss = 5.5, summary.last_loss = 2.25;
  summary.best_validation_loss = 2.3, summary.best_validation_step = 20;
  summary.tokens_per_second = 12345.6;
  summary.wall_seconds = 100;
  summary.exit_reason = "finished";
  summary.lost_seconds.evaluation = 12.5;
  summary.rehearsed_memory = MemoryFigures{1, 2, 3, 4, 5, 1000, "layer 3", 50, 60};
  summary.rehearsed_messages = {{"data", "all_reduce", 3, 400}};
  summary.exposures = {{"data", "all_reduce", 3, 0.5, 0.25, {{"needed at once", 1, 0.25, "layer 3"}}}};
  return summary;
}

TEST(RunSummary, RoundTrip) {
  const std::string text = to_json(small_summary()).dump();
  const RunSummary back = run_summary_from_json(parse_json(text, "summary"), "summary");
  EXPECT_EQ(to_json(back).dump(), text);
  EXPECT_EQ(back.rehearsed_memory->persistent(), 10);
  EXPECT_FALSE(back.measured_memory);
  EXPECT_EQ(back.rehearsed_messages, small_summary().rehearsed_messages);
  EXPECT_EQ(back.lost_seconds.evaluation, 12.5);
  EXPECT_EQ(back.exposures.at(0).parts.at(0).where, "layer 3");
  EXPECT_EQ(back.model["hidden_size"], 512);
}

TEST(RunSummary, NonFiniteIsNullAndFlagged) {
  RunSummary summary = small_summary();
  summary.last_loss = std::numeric_limits<double>::infinity();
  const Json json = to_json(summary);
  EXPECT_TRUE(json["last_loss"].is_null());
  EXPECT_EQ(json["non_finite"], true);
  EXPECT_TRUE(std::isnan(run_summary_from_json(json, "summary").last_loss));
}

TEST(RunSummary, FromOutsideIsCheckedAndTheKeyNamed) {
  Json json = to_json(small_summary());
  json["rehearsed_memory"]["peak_bytes"] = "many";
  try {
    run_summary_from_json(json, "run/summary.json");
    FAIL() << "accepted";
  } catch (const WorldError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("run/summary.json: \"rehearsed_memory\": \"peak_bytes\" holds \"many\""));
  }
}

TEST(RunSummary, MemoryFiguresOfARecord) {
  StepRecord record;
  record.live_at_start[static_cast<int>(Category::parameters)] = 100;
  record.live_at_start[static_cast<int>(Category::optimizer)] = 200;
  record.live_at_start[static_cast<int>(Category::host_optimizer)] = 4000;
  record.memory = {{50, Category::activations}, {7, Category::scratch}};
  record.ops = {{"matmul", "layer 0", "forward", 0, 0, 0, 0, 1},
                {"rms_norm", "layer 1", "forward", 0, 0, 0, 0, 2}};
  const MemoryFigures figures = memory_figures(record);
  EXPECT_EQ(figures.persistent(), 300);
  EXPECT_EQ(figures.peak_bytes, 350);
  EXPECT_EQ(figures.peak_at, "layer 0, matmul, forward");
  EXPECT_EQ(figures.scratch_peak_bytes, 7);
  EXPECT_EQ(figures.host_optimizer, 4000);
}

TEST(RunSummary, TableForATerminal) {
  const std::string table = summary_table(small_summary());
  EXPECT_THAT(table, HasSubstr("tiny, 56.1 M parameters, 2 ranks"));
  EXPECT_THAT(table, HasSubstr("5.5000 -> 2.2500"));
  EXPECT_THAT(table, HasSubstr("12.5 s (12.5 %)"));
  EXPECT_THAT(table, HasSubstr("1,000 bytes (1000 B)"));
  EXPECT_THAT(table, HasSubstr("not recorded"));
}

TEST(ProgressLine, AllFigures) {
  StepMetrics metrics;
  metrics.step = 40, metrics.loss = 2.34561, metrics.grad_norm = 0.8123, metrics.learning_rate = 3e-4;
  metrics.tokens_per_second = 12345.4, metrics.mfu = 0.6123, metrics.peak_bytes = 337013964;
  EXPECT_EQ(progress_line(metrics, {.steps = 2000, .rehearsed_peak_bytes = 337013964, .seconds_left = 93.2}),
            "step   40/2000  loss  2.3456  norm  0.8123  lr 3.00e-04     12,345 tokens/s  MFU 61.2 %  "
            "peak 321.4 MiB (rehearsed 321.4 MiB)  left  1m33s");
}

TEST(ProgressLine, WhatIsUnknownOrWrongIsSaid) {
  StepMetrics metrics;
  metrics.loss = std::numeric_limits<double>::quiet_NaN();
  metrics.skipped = true;
  metrics.validation_loss = 1.5;
  const std::string line =
      progress_line(metrics, {.steps = 10, .rehearsed_peak_bytes = {}, .seconds_left = {}});
  EXPECT_THAT(line, HasSubstr("loss     nan"));
  EXPECT_THAT(line, HasSubstr("MFU unknown"));
  EXPECT_THAT(line, HasSubstr("validation 1.5000"));
  EXPECT_THAT(line, HasSubstr("update skipped"));
  EXPECT_THAT(line, ::testing::Not(HasSubstr("left")));
}

}  // namespace
}  // namespace muster::telemetry
