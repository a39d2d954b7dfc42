// The published figures of ZeRO's stages, out of rehearsals of whole models (shared/reference/sizing).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>

#include "tests/program.h"

namespace muster::test {
namespace {

// Public dimensions; the vocabulary makes the number of parameters the guide's round one.
std::string job_of(const Folder& folder, const char* preset, int64_t vocabulary) {
  write_text(folder / "job.toml", fmt::format("[model]\npreset = \"{}\"\nvocab_size = {}\n"
                                              "[training]\nglobal_batch_size = 8\nmicro_batch_size = 1\n",
                                              preset, vocabulary));
  return (folder / "job.toml").string();
}

Json rehearsed(const std::string& job, int stage) {
  const Outcome outcome =
      muster(fmt::format("rehearse {} --world 8 --json --set layout.zero={}", job, stage));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Json::parse(outcome.out);
}

double persistent_bytes(const Json& rank) {
  double bytes = 0;
  for (const Json& part : rank["persistent_bytes"]) bytes += part.get<double>();
  return bytes;
}

double rounded(double number, int places) {
  return std::round(number * std::pow(10, places)) / std::pow(10, places);
}

Json published() {
  return Json::parse(read_text(reference("sizing/sizing.json")))["memory"];
}

// Parameters, gradients and two moments in fp32 of a model of 7.0e9 parameters: whole, and over 8 ranks.
TEST(Sizing, Fp32StateOf7BOver8) {
  const Folder folder;
  const std::string job = job_of(folder, "llama2-7b", 64000);
  const Json figures = published()["other"];
  EXPECT_EQ(rounded(persistent_bytes(rehearsed(job, 0)) / 1e9, 0), figures["fp32_7b_four_tensors_gb"]);
  EXPECT_EQ(rounded(persistent_bytes(rehearsed(job, 3)) / 1e9, 0), figures["over_8_devices_gb"]);
}

// 70.0e9 parameters at 16 bytes. The guide's 2 + 2 + 12 and fp32's 4 + 4 + 8 agree where one divisor serves
// all: whole, and at stage 3, where the guide adds two gathered layers to 130.4. Its stages between need
// parameters and gradients in 16 bits.
TEST(Sizing, Fp32StateOf70BOver8) {
  const Folder folder;
  const std::string job = job_of(folder, "llama2-70b", 94462);
  const Json rows = published()["rows"];
  constexpr double GiB = 1024.0 * 1024 * 1024;
  EXPECT_EQ(rounded(persistent_bytes(rehearsed(job, 0)) / GiB, 1), rows[0]["state_gib"]);
  const Json shared = rehearsed(job, 3);
  EXPECT_EQ(rounded(persistent_bytes(shared) / GiB, 1), 130.4);
  // Two units of P / 80 parameters at 2 bytes: here 4 bytes, and a block without its share of the embeddings.
  // Both printed figures are rounded to 0.05.
  const double two_layers = rows[3]["state_gib"].get<double>() - 130.4;
  EXPECT_NEAR(shared["gathered_bytes"].get<double>() / GiB / 2, two_layers, 0.1);
}

}  // namespace
}  // namespace muster::test
