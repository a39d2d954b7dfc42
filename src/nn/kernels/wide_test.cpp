#include "nn/kernels/wide.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace muster::nn::kernels {
namespace {

using c10::BFloat16;

// Every number of the format comes back as it went.
TEST(Wide, EveryBfloat16IsItself) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 x(static_cast<uint16_t>(bits), BFloat16::from_bits());
    if (std::isnan(wide(x)))
      EXPECT_TRUE(std::isnan(wide(rounded<BFloat16>(wide(x))))) << bits;
    else
      EXPECT_EQ(rounded<BFloat16>(wide(x)).x, bits);
  }
}

// Between two neighbours the nearer one, half way the even one: over every binade, signs, and to infinity.
TEST(Wide, RoundsToNearestEven) {
  for (uint32_t high = 0; high < 0x10000; ++high) {
    if ((high & 0x7f80) == 0x7f80) continue;  // infinity and NaN
    const uint32_t up = high + 1, even = high + (high & 1);
    const auto rounded_of = [&](uint32_t low) {
      return uint32_t{rounded<BFloat16>(std::bit_cast<float>(high << 16 | low)).x};
    };
    EXPECT_EQ(rounded_of(0x0001), high);
    EXPECT_EQ(rounded_of(0x7fff), high);
    EXPECT_EQ(rounded_of(0x8000), even);
    EXPECT_EQ(rounded_of(0x8001), up);
    EXPECT_EQ(rounded_of(0xffff), up);
  }
}

TEST(Wide, NanStaysNanWhateverItsBits) {
  for (uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu, 0x7fc00000u})
    EXPECT_TRUE(std::isnan(wide(rounded<BFloat16>(std::bit_cast<float>(bits))))) << bits;
}

}  // namespace
}  // namespace muster::nn::kernels
