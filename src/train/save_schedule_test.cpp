// When a checkpoint is due.
#include "train/save_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::train {
namespace {

using ::testing::HasSubstr;

spec::CheckpointConfig adaptive() {
  spec::CheckpointConfig config;
  config.adaptive = true;
  config.hours_between_interruptions = 24;
  return config;
}

TEST(SaveSchedule, BySteps) {
  spec::CheckpointConfig config;
  config.every = 3;
  SaveSchedule schedule(config, {}, 0);
  EXPECT_TRUE(schedule.is_due(6));
  EXPECT_FALSE(schedule.is_due(7));
  EXPECT_FALSE(schedule.is_time(1e9));
}

TEST(SaveSchedule, ByMinutesSinceTheLastSave) {
  spec::CheckpointConfig config;
  config.every_minutes = 2;
  SaveSchedule schedule(config, {}, 100);
  EXPECT_FALSE(schedule.is_due(6));
  EXPECT_FALSE(schedule.is_time(219));
  EXPECT_TRUE(schedule.is_time(220));
  schedule.saved(230, 1);
  EXPECT_FALSE(schedule.is_time(349));
  EXPECT_TRUE(schedule.is_time(350));
}

// Cost 2 s, 86,400 s between interruptions: sqrt(2 x 2 x 86400) = 587.878; C/2M = 1.15741e-5, whose root
// is 3.40207e-3: x (1 + 1.13402e-3 + 1.28601e-6) - 2 = 586.545 s.
TEST(SaveSchedule, AdaptiveIsDalysInterval) {
  SaveSchedule schedule(adaptive(), {}, 0);
  EXPECT_FALSE(schedule.is_time(1));
  EXPECT_FALSE(schedule.is_time(2));
  EXPECT_TRUE(schedule.is_time(3)) << "the first tells the cost";
  schedule.saved(3, 2);
  EXPECT_NEAR(*schedule.adaptive_seconds(0), 586.545, 1e-3);
  EXPECT_THAT(schedule.reason(0), HasSubstr("Daly 2006, equation 37"));
  EXPECT_FALSE(schedule.is_time(3 + 586));
  EXPECT_TRUE(schedule.is_time(3 + 600));
}

// Three more interruptions in 24 h, beside the one in 24 h that was given: 12 h between them.
TEST(SaveSchedule, WhatTheRunSeesCounts) {
  SaveSchedule calm(adaptive(), {0, 0}, 0), rough(adaptive(), {3, 24}, 0);
  calm.saved(0, 2);
  rough.saved(0, 2);
  EXPECT_NEAR(*rough.adaptive_seconds(0) / *calm.adaptive_seconds(0), std::sqrt(0.5), 2e-3);
  EXPECT_THAT(rough.reason(0), HasSubstr("3 seen in 24.0 h"));
}

TEST(SaveSchedule, NoSoonerThanOneTakesToBecomeDurable) {
  SaveSchedule schedule(adaptive(), {}, 0);
  schedule.saved(0, 2);
  schedule.became_durable(3000);
  EXPECT_EQ(schedule.adaptive_seconds(0), 3000);
  EXPECT_THAT(schedule.reason(0), HasSubstr("no sooner"));
}

}  // namespace
}  // namespace muster::train
