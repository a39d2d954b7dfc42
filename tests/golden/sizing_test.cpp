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

// B102: 70.0e9 parameters in 16 bits, their gradients too, and 12 bytes of optimizer: a master and two
// moments. Each stage divides what it says; beside stage 3 the guide adds two gathered layers.
TEST(Sizing, B102_MixedStateOf70BOver8) {
  const Folder folder;
  const std::string job = job_of(folder, "llama2-70b", 94462) +
                          " --set numerics.compute=bfloat16 --set numerics.gradients=bfloat16";
  const Json rows = published()["rows"];
  constexpr double GiB = 1024.0 * 1024 * 1024;
  for (int stage = 0; stage <= 2; ++stage)
    EXPECT_EQ(rounded(persistent_bytes(rehearsed(job, stage)) / GiB, 1), rows[stage]["state_gib"]) << stage;
  const Json shared = rehearsed(job, 3);
  EXPECT_EQ(rounded(persistent_bytes(shared) / GiB, 1), 130.4);
  // Two units of P / 80 parameters; here a block is without its share of the embeddings. Both printed figures
  // are rounded to 0.05.
  const double two_layers = rows[3]["state_gib"].get<double>() - 130.4;
  EXPECT_NEAR(shared["gathered_bytes"].get<double>() / GiB, two_layers, 0.1);
}

// B102: 16, 5.5, 3.75 and 2 bytes a parameter, to the byte, and gradients in fp32 where nobody asks for less.
TEST(Sizing, B102_BytesOfAParameterInLowPrecision) {
  const Folder folder;
  const std::string job = job_of(folder, "llama2-7b", 32000) + " --set numerics.compute=bfloat16";
  const int64_t elements = 6'738'415'616;
  for (const auto& [gradients, first] : {std::pair("bfloat16", 16), {"float32", 18}})
    for (int stage = 0; stage <= 3; ++stage) {
      const Json bytes = rehearsed(job + " --set numerics.gradients=" + gradients, stage)["persistent_bytes"];
      const auto over = [&](int from, int64_t of_one) { return elements * of_one / (stage >= from ? 8 : 1); };
      EXPECT_EQ(bytes["parameters"], over(3, 2)) << stage;
      EXPECT_EQ(bytes["gradients"], over(2, first - 14)) << stage;
      EXPECT_EQ(bytes["master_parameters"], over(1, 4)) << stage;
      EXPECT_EQ(bytes["optimizer"], over(1, 8)) << stage;
    }
  EXPECT_EQ(rehearsed(job, 0)["persistent_bytes"]["gradients"], elements * 4);
}

}  // namespace
}  // namespace muster::test
