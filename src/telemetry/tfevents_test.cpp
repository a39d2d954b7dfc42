#include "telemetry/tfevents.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "telemetry/crc32c.h"

namespace muster::telemetry {
namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

TEST(Crc32c, PublishedVectors) {
  // RFC 3720, appendix B.4, and the check value of the CRC catalogue.
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(""), 0u);
}

// These bytes were read back by tensorboard 2.21 (EventAccumulator): loss 2.5 and grad_norm -0.75 at step
// 300.
TEST(TfEvents, GoldenBytes) {
  EXPECT_EQ(hex(version_record(1700000000.5)),
            "1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b353110");
  EXPECT_EQ(hex(scalar_record(1700000001.25, 300, {{"loss", 2.5f}, {"grad_norm", -0.75f}})),
            "2d000000000000003c418afb0900005040fc54d94110ac022a1f0a0b0a046c6f737315000020400a100a09677261645f"
            "6e6f726d15000040bfea9cca21");
}

TEST(TfEvents, FileName) {
  EXPECT_EQ(event_file_name(1700000000.0, "node3", 42), "events.out.tfevents.1700000000.node3.42");
}

}  // namespace
}  // namespace muster::telemetry
