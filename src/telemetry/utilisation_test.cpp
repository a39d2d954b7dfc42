#include "telemetry/utilisation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/error.h"

namespace muster::telemetry {
namespace {

// 32 layers, hidden 4096, sequence 16384, no vocabulary: training FLOPs a token.
constexpr double kLinear = 6 * 12. * 4096 * 4096 * 32;
constexpr double kFullAttention = 3 * 4. * 16384 * 4096 * 32;
constexpr double kCausalAttention = kFullAttention / 2;

TEST(Utilisation, B088CausalAttentionAndTheConventionIsNamed) {
  EXPECT_NEAR(kLinear / 1e9, 38.65, 0.01);
  EXPECT_NEAR(kCausalAttention / 1e9, 12.88, 0.01);
  EXPECT_NEAR(kFullAttention / 1e9, 25.77, 0.01);
  const double tokens = 16384, peak = 1e15;
  const double causal = tokens * (kLinear + kCausalAttention), full = tokens * (kLinear + kFullAttention);
  EXPECT_NEAR(full / causal, 1.25, 1e-9);
  const double seconds = causal / (0.85 * peak);
  EXPECT_NEAR(*utilisation(causal, seconds, 1, peak), 0.85, 1e-12);
  EXPECT_THROW(utilisation(full, seconds, 1, peak), Bug) << "106 % must not be shown";
  EXPECT_EQ(convention("bfloat16", 8, peak, "data sheet"),
            "MFU: model FLOPs (causal attention, no recomputation) over the dense bfloat16 peak of 8 x 1 "
            "PFLOP/s (data sheet)");
}

TEST(Utilisation, B088RecomputationCountsInHardwareFlopsOnly) {
  const double model = 3e12, recomputed = 1e12, peak = 1e13;
  EXPECT_NEAR(*utilisation(model, 1, 1, peak), 0.3, 1e-12);
  EXPECT_NEAR(*utilisation(model + recomputed, 1, 1, peak), 0.4, 1e-12);
}

TEST(Utilisation, B090AccumulationLeavesItAsItIs) {
  const double micro_batch_flops = 4e11, peak = 1e12;
  for (const int accumulation : {1, 4}) {
    FakeClock clock;
    for (int micro_batch = 0; micro_batch < accumulation; ++micro_batch) clock.advance(1.0);
    EXPECT_NEAR(*utilisation(accumulation * micro_batch_flops, clock.seconds(), 1, peak), 0.4, 1e-12);
  }
}

TEST(Utilisation, B090APipelineIsDividedByAllItsDevices) {
  EXPECT_NEAR(*utilisation(8e11, 1, 4, 1e12), 0.2, 1e-12);
}

TEST(Utilisation, UnknownPeakIsUnknownAndNeverAGuess) {
  EXPECT_FALSE(utilisation(1, 1, 1, std::nullopt));
  EXPECT_THAT(convention("float32", 2, std::nullopt, ""),
              ::testing::HasSubstr("no dense float32 peak is known"));
  EXPECT_THROW(utilisation(1, 0, 1, 1e12), Bug);
}

TEST(Pace, B092AfterAResumeOnlyNewStepsCount) {
  FakeClock clock;
  clock.advance(12345);
  Pace pace;
  for (int step = 901; step <= 1000; ++step) {
    clock.advance(0.5);
    pace.step_done(clock.seconds(), 0.5);
  }
  EXPECT_NEAR(*pace.steps_per_second(), 2.0, 1e-9);
  EXPECT_NEAR(*pace.seconds_left(100), 50.0, 1e-6);
}

TEST(Pace, B092SkippedStepsAreInNeitherCount) {
  FakeClock clock;
  Pace pace(10);
  for (int step = 1; step <= 30; ++step) {
    const double seconds = step <= 10 ? 7.0 : 0.25;
    clock.advance(seconds);
    pace.step_done(clock.seconds(), seconds);
    EXPECT_EQ(pace.steps_per_second().has_value(), step > 10) << step;
  }
  EXPECT_NEAR(*pace.steps_per_second(), 4.0, 1e-9) << "20 steps in 5 seconds";
}

TEST(Pace, WhatLiesBetweenStepsIsInTheTimeLeft) {
  FakeClock clock;
  Pace pace(0);
  for (int step = 0; step < 4; ++step) {
    clock.advance(1);
    pace.step_done(clock.seconds(), 1);
    if (step == 1) clock.advance(4);  // an evaluation
  }
  EXPECT_NEAR(*pace.steps_per_second(), 0.5, 1e-9);
}

}  // namespace
}  // namespace muster::telemetry
