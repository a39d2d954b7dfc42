// AdamW and Muon learn, the same in one process as over shards.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/program.h"

namespace muster::test {
namespace {

// Ids of which each follows from the one before: what is left of the loss is what was not learned.
std::string periodic_job(const Folder& folder) {
  const std::string job = small_job(folder, "llama");
  std::string ids;
  for (int at = 0; at < 4000; ++at) ids += {static_cast<char>(at * 5 % 64), '\0'};
  write_text(folder / "tokens.bin", ids);
  return job + " --set training.steps=60 --set numerics.compute=float64 --set optimizer.schedule=constant";
}

std::vector<double> losses(const Folder& folder, const std::string& name, const std::string& more) {
  const Outcome outcome =
      muster("train " + periodic_job(folder) + " --run " + (folder / name).string() + more);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::vector<double> losses;
  for (const Json& step : read_metrics(folder / name)) losses.push_back(step["loss"]);
  return losses;
}

TEST(Optimizers, LearnTheSameInOneProcessAndOverShards) {
  const Folder folder;
  int run = 0;
  for (const char* optimizer : {"adamw", "muon"}) {
    const std::string more =
        fmt::format(" --set optimizer.learning_rate=3e-3 --set optimizer.name={}", optimizer);
    const auto one = losses(folder, std::to_string(++run), more + " --procs 1");
    const auto four =
        losses(folder, std::to_string(++run), more + " --procs 4 --set layout.zero=2 --set layout.tensor=2");
    ASSERT_EQ(one.size(), 60u);
    ASSERT_EQ(four.size(), 60u);
    EXPECT_LT(one.back(), 0.5 * one.front()) << optimizer;
    for (size_t step = 0; step < one.size(); ++step)
      EXPECT_LE(std::abs(four[step] - one[step]), 1e-11 * one[step]) << optimizer << ", step " << step + 1;
  }
}

}  // namespace
}  // namespace muster::test
