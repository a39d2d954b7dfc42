// Training in bfloat16 as a user runs it: every layout computes one update and takes what was rehearsed, the
// loss falls as in fp32, and a killed run goes on with the same bits.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>

#include "tests/faults/runs.h"
#include "tests/ranks/proofs.h"

namespace muster::test {
namespace {

constexpr const char* kBfloat16 = " --set numerics.compute=bfloat16";

struct Layout {
  const char* family;
  int procs;
  const char* more;
};

class VerifyBfloat16 : public ::testing::TestWithParam<Layout> {};

TEST_P(VerifyBfloat16, EveryProofHolds) {
  const Folder folder;
  const Layout& l = GetParam();
  expect_every_proof(small_job(folder, l.family) + kBfloat16 + " " + l.more, l.procs);
}

constexpr const char* kNarrow =
    "--set numerics.gradients=bfloat16 --set numerics.master=none --set numerics.optimizer=bfloat16";
INSTANTIATE_TEST_SUITE_P(
    Layouts, VerifyBfloat16,
    ::testing::Values(
        Layout{"llama", 2, ""}, Layout{"gpt2", 2, kNarrow}, Layout{"llama", 2, "--set layout.zero=1"},
        Layout{"gpt2", 4, "--set layout.zero=2 --set layout.tensor=2 --set layout.sequence_parallel=true"},
        Layout{"llama", 4, "--set layout.zero=3 --set layout.replicate=2"},
        Layout{"llama", 2, "--set layout.zero=3 --set numerics.gradients=bfloat16"},
        Layout{"llama", 4, "--set layout.tensor=4"},
        Layout{"llama", 4, "--set layout.context=2 --set layout.zero=2 --set layout.recompute=full"},
        Layout{"gpt2", 2, "--set layout.context=2 --set layout.context_method=all_to_all"},
        Layout{"llama", 2, "--set layout.zero=1 --set optimizer.name=sgd --set optimizer.momentum=0.9"},
        Layout{"llama", 2, "--set layout.zero=3 --set optimizer.name=muon"}));

std::vector<double> losses(const Folder& folder, const std::string& name) {
  std::vector<double> losses;
  for (const Json& step : read_metrics(folder / name)) losses.push_back(step["loss"]);
  return losses;
}

// Ids that a model of 24 positions learns in a few steps.
void write_pattern(const Folder& folder) {
  std::string ids;
  for (int at = 0; at < 4000; ++at) ids += {static_cast<char>(at * 7 % 61), '\0'};
  write_text(folder / "tokens.bin", ids);
}

// From the same first values, rounded, both learn the same: the losses of fp32 and bfloat16 stay together as
// far as rounding moves a loss (2^-8 of it, and as much again a step from the parameters).
TEST(Bfloat16, LearnsAsFp32Does) {
  const Folder folder;
  const std::string text = small_job(folder, "llama");
  write_pattern(folder);
  const std::string job = text +
                          " --procs 2 --set layout.zero=1 --set training.steps=30 "
                          "--set optimizer.learning_rate=3e-3 --set optimizer.schedule=constant";
  ASSERT_EQ(train(folder, "wide", job).status, 0);
  const Outcome outcome = train(folder, "low", job + kBfloat16);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<double> wide = losses(folder, "wide"), low = losses(folder, "low");
  ASSERT_EQ(low.size(), 30u);
  EXPECT_LT(wide.back(), wide.front() - 0.3) << "the job learns nothing";
  for (size_t step = 0; step < low.size(); ++step)
    EXPECT_NEAR(low[step], wide[step], 0x1p-8 * wide[step] * 2) << "step " << step + 1;
}

// Checkpoints keep the masters alone; the parameters are rounded from them again. The final weights are the
// parameters.
TEST(Bfloat16, AKilledRunEndsWithTheSameBits) {
  const Folder folder;
  const std::string job = nine_steps(folder, 3) + " --procs 2 --set layout.zero=3" + kBfloat16 + kAtOnce;
  ASSERT_EQ(train(folder, "one", job).status, 0);
  EXPECT_NE(train(folder, "two", job, "rank=1,step=8,phase=backward,action=kill").status, 0);
  const Outcome resumed = train(folder, "two", job + " --resume");
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  expect_equal_runs(folder, "one", "two");
  EXPECT_NE(weights(folder, "two").find("\"dtype\":\"BF16\""), std::string::npos);
  EXPECT_EQ(weights(folder, "two").find("\"dtype\":\"F32\""), std::string::npos);
}

}  // namespace
}  // namespace muster::test
