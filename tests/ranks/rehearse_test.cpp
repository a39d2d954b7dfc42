// A rehearsal is cheap whatever it rehearses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>

#include "tests/program.h"

namespace muster::test {
namespace {

constexpr const char* k70B =
    "[model]\npreset = \"llama2-70b\"\n[data]\nsequence_length = 4096\n"
    "[training]\nglobal_batch_size = 512\nmicro_batch_size = 1\n[layout]\ndata = 512\n";

TEST(Rehearse, OneRankOf70BInAWorldOf512) {
  const Folder folder;
  write_text(folder / "job.toml", k70B);
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = muster("rehearse " + (folder / "job.toml").string() + " --rank 511 --json");
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  std::printf("70B, rank 511 of 512: %.2f s, %.0f MB\n", seconds,
              static_cast<double>(usage.ru_maxrss) / 1024);
  EXPECT_LT(seconds, 2);
  EXPECT_LT(usage.ru_maxrss, 1'000'000);

  const Json result = Json::parse(outcome.out);
  const int64_t parameters = 68'976'648'192;  // llama2-70b, exactly
  EXPECT_EQ(result["coordinate"]["data"], 511);
  EXPECT_EQ(result["persistent_bytes"]["parameters"], 4 * parameters);
  EXPECT_EQ(result["persistent_bytes"]["gradients"], 4 * parameters);
  EXPECT_EQ(result["persistent_bytes"]["optimizer"], 8 * parameters);
  EXPECT_EQ(result["persistent_bytes"]["master_parameters"], 0);
  EXPECT_GT(result["peak_bytes"], 16 * parameters);
  // Gradients once, and two fp64 sums.
  ASSERT_EQ(result["messages"].size(), 1u);
  EXPECT_EQ(result["messages"][0]["axis"], "data");
  EXPECT_EQ(result["messages"][0]["op"], "all_reduce");
  EXPECT_EQ(result["messages"][0]["bytes"], 4 * parameters + 16);
}

// Whether a rank fits the device that the job names is what a person asks first.
TEST(Rehearse, SaysWhetherItFits) {
  const Folder folder;
  const std::string job = "rehearse " + small_job(folder, "llama", "") + " --world 2 --set hardware.name=";
  const Json fits = Json::parse(muster(job + "h100-sxm --json").out)["device"];
  EXPECT_EQ(fits["fits"], true);
  EXPECT_EQ(fits["name"], "H100 SXM");
  EXPECT_THAT(muster(job + "h100-sxm").out, testing::HasSubstr("fits: the peak is"));
  write_text(folder / "small.toml", "name = \"small\"\nsource = \"here\"\nmemory_bytes = 1000\n");
  const std::string small = job + (folder / "small.toml").string();
  EXPECT_EQ(Json::parse(muster(small + " --json").out)["device"]["fits"], false);
  EXPECT_THAT(muster(small).out, testing::HasSubstr("DOES NOT FIT"));
}

TEST(Rehearse, RanksOutsideTheWorldAreRefused) {
  const Folder folder;
  write_text(folder / "job.toml", k70B);
  const Outcome outcome = muster("rehearse " + (folder / "job.toml").string() + " --rank 512");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("--rank = 512"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace muster::test
