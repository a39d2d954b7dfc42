// The optimizer's state off the device: two accounts, each as rehearsed, and the same bits.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"
#include "tests/faults/runs.h"
#include "tests/ranks/proofs.h"

namespace muster::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kOff = " --set layout.offload=host";

struct Layout {
  int procs;
  const char* settings;
};
constexpr Layout kLayouts[] = {{1, ""},
                               {2, "--set layout.zero=1"},
                               {2, "--set layout.zero=2 --set numerics.optimizer=bfloat16"},
                               {2, "--set layout.zero=3 --set optimizer.name=muon"},
                               {2, "--set optimizer.name=sgd --set optimizer.momentum=0.9"}};

std::string on(const std::string& job, const Layout& layout) {
  return fmt::format("{} --procs {} {}", job, layout.procs, layout.settings);
}

Json rehearsed(const std::string& job, const Layout& layout, const std::string& more = "") {
  const Outcome outcome =
      muster(fmt::format("rehearse {} --world {} {} --json{}", job, layout.procs, layout.settings, more));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Json::parse(outcome.out);
}

// What is rehearsed is measured, in both accounts, and the update is that of one process.
TEST(Offload, EveryProofHolds) {
  for (const auto& [family, procs, more] :
       {std::tuple("llama", 1, ""),
        {"gpt2", 2, "--set layout.zero=1"},
        {"llama", 4, "--set layout.zero=2 --set layout.replicate=2"},
        {"gpt2", 4, "--set layout.zero=3 --set layout.tensor=2"},
        {"llama", 2, "--set layout.zero=3 --set optimizer.name=muon --set numerics.compute=float64"}}) {
    const Folder folder;
    SCOPED_TRACE(more);
    expect_every_proof(small_job(folder, family) + kOff + " " + more, procs);
  }
}

// The state is all that moves from one account to the other.
TEST(Offload, TakesTheStateOffTheDeviceAndNothingElse) {
  const Folder folder;
  const std::string job = small_job(folder, "llama");
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(layout.settings);
    const Json with = rehearsed(job, layout), without = rehearsed(job, layout, kOff);
    const int64_t state = with["persistent_bytes"]["optimizer"];
    EXPECT_GT(state, 0);
    EXPECT_EQ(with["host"]["optimizer_bytes"], 0);
    EXPECT_EQ(without["host"]["optimizer_bytes"], state);
    EXPECT_EQ(without["persistent_bytes"]["optimizer"], 0);
    EXPECT_EQ(without["persistent_bytes"]["parameters"], with["persistent_bytes"]["parameters"]);
    EXPECT_EQ(without["peak_bytes"], with["peak_bytes"].get<int64_t>() - state);
    EXPECT_EQ(without["peak_at"], with["peak_at"]);
    EXPECT_EQ(without["messages"], with["messages"]);
  }
  EXPECT_THAT(muster("rehearse " + job + kOff).out, HasSubstr("host: optimizer state"));
}

TEST(Offload, TrainsToTheSameBits) {
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(layout.settings);
    const Folder folder;
    const std::string job = on(nine_steps(folder, 0), layout);
    ASSERT_EQ(train(folder, "with", job).status, 0);
    const Outcome off = train(folder, "without", job + kOff);
    ASSERT_EQ(off.status, 0) << off.err;
    expect_equal_runs(folder, "with", "without");
    const Json summary = Json::parse(read_text(folder / "without/summary.json"));
    EXPECT_GT(summary["measured_memory"]["host_optimizer"], 0);
    for (const char* figure : {"host_optimizer", "optimizer", "peak_bytes"})
      EXPECT_EQ(summary["measured_memory"][figure], summary["rehearsed_memory"][figure]) << figure;
  }
}

// Where the state lives is no part of what a checkpoint promises.
TEST(Offload, AReplayGoesOnFromEitherSide) {
  for (const auto& [before, after] : {std::pair("none", "host"), {"host", "none"}, {"host", "host"}}) {
    SCOPED_TRACE(fmt::format("{} -> {}", before, after));
    const Folder folder;
    const std::string job = nine_steps(folder, 3) + " --procs 2 --set layout.zero=2" + kAtOnce;
    const auto at = [&](const char* place) { return fmt::format("{} --set layout.offload={}", job, place); };
    ASSERT_EQ(train(folder, "whole", at("none")).status, 0);
    EXPECT_NE(train(folder, "run", at(before), "rank=1,step=5,phase=backward,action=kill").status, 0);
    const Outcome resumed = train(folder, "run", at(after) + " --resume");
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_THAT(resumed.err, HasSubstr("resumed from step-00000003.g1 (deterministic-replay)"));
    expect_equal_runs(folder, "whole", "run");
  }
}

// A device with room for all but the state: refused with what is needed and found, and with the state on the
// host the run that an unbounded device would make.
TEST(Offload, AModelWhoseStateExceedsTheDeviceTrainsToTheSameBits) {
  const Folder folder;
  const Layout layout{2, "--set layout.zero=1"};
  const std::string file = nine_steps(folder, 0), job = on(file, layout);
  const int64_t needed = rehearsed(file, layout)["peak_bytes"],
                found = rehearsed(file, layout, kOff)["peak_bytes"];
  const auto bounded = [](int64_t bytes) { return fmt::format(" --set hardware.memory_bytes={}", bytes); };
  const Outcome refused = train(folder, "refused", job + bounded(found));
  EXPECT_EQ(refused.status, 2);
  for (const std::string& figure :
       {fmt::format("hardware.memory_bytes = {}", found), format_exact(needed) + " bytes",
        std::string("layout.offload = \"host\"")})
    EXPECT_THAT(refused.err, HasSubstr(figure));
  EXPECT_FALSE(fs::exists(folder / "refused"));
  EXPECT_EQ(train(folder, "refused", job + kOff + bounded(found - 1)).status, 2);

  ASSERT_EQ(train(folder, "unbounded", job).status, 0);
  const Outcome trained = train(folder, "bounded", job + kOff + bounded(found));
  ASSERT_EQ(trained.status, 0) << trained.err;
  expect_equal_runs(folder, "unbounded", "bounded");

  EXPECT_EQ(rehearsed(file, layout, bounded(found))["device"]["fits"], false);
  EXPECT_EQ(rehearsed(file, layout, kOff + bounded(found))["device"]["fits"], true);
}

}  // namespace
}  // namespace muster::test
