#include "nn/kernels/vector_math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace muster::nn::kernels {
namespace {

// As the kernels compile it, and as the baseline instruction set does.
MUSTER_CLONES void exp_best(float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = exp_of(x[i]);
}
void exp_baseline(float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = exp_of(x[i]);
}
constexpr auto kBoth = {&exp_best, &exp_baseline};

constexpr float kLowest = -87.3f, kHighest = 88.7f;

// Floats of [kLowest, kHighest] at equal distances in their bits, so that every binade is met.
std::vector<float> samples() {
  std::vector<float> result = {kLowest, kHighest, 0.0f, -0.0f};
  for (uint32_t bits = 1; bits < std::bit_cast<uint32_t>(kHighest); bits += 1499) {
    result.push_back(std::bit_cast<float>(bits));
    result.push_back(std::max(-result.back(), kLowest));
  }
  return result;
}

double ulps(float measured, double right) {
  const float nearest = static_cast<float>(right);
  const double step =
      static_cast<double>(std::nextafter(nearest, std::numeric_limits<float>::infinity())) - nearest;
  return std::abs(static_cast<double>(measured) - right) / step;
}

TEST(Exp, IsWithinTwoUlpsOverItsRange) {
  const std::vector<float> inputs = samples();
  for (const auto exp_all : kBoth) {
    std::vector<float> outputs = inputs;
    exp_all(outputs.data(), static_cast<int64_t>(outputs.size()));
    double worst = 0, at = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double error = ulps(outputs[i], std::exp(static_cast<double>(inputs[i])));
      if (error > worst) worst = error, at = inputs[i];
    }
    EXPECT_LE(worst, 2) << "at " << at;
  }
}

TEST(Exp, OutsideItsRangeItIsThatOfTheEnds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const auto exp_all : kBoth) {
    std::vector<float> x = {-87.31f,   -1000.0f, -kInfinity, 88.71f, 1000.0f,
                            kInfinity, kLowest,  kHighest,   0.0f,   -0.0f};
    exp_all(x.data(), static_cast<int64_t>(x.size()));
    for (size_t i : {0, 1, 2}) EXPECT_EQ(x[i], x[6]);
    for (size_t i : {3, 4, 5}) EXPECT_EQ(x[i], x[7]);
    EXPECT_GT(x[6], 0.0f);
    EXPECT_LT(x[7], kInfinity);
    EXPECT_EQ(x[8], 1.0f);
    EXPECT_EQ(x[9], 1.0f);
  }
}

// In each lane of a vector and in the rest behind the last whole one.
TEST(Exp, NanStaysNan) {
  for (const auto exp_all : kBoth) {
    std::vector<float> x(37, 1.0f);
    for (size_t i = 0; i < x.size(); i += 3) x[i] = std::numeric_limits<float>::quiet_NaN();
    exp_all(x.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(std::isnan(x[i]), i % 3 == 0) << i;
  }
}

}  // namespace
}  // namespace muster::nn::kernels
