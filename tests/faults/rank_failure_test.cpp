// A rank that fails or dies stops all within seconds, first cause first, nothing left behind (CASES B034 for
// a run).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/program.h"

namespace muster::test {
namespace {

using ::testing::HasSubstr;

struct Failure {
  const char* action;
  const char* said;  // of the first cause
};

class RankFailure : public ::testing::TestWithParam<std::tuple<const char*, Failure>> {};

// Processes of this job: their command line names its folder.
int processes_of(const Folder& folder) {
  return std::stoi(run("pgrep -cf '[m]uster train " + folder.path().string() + "' || true").out);
}

TEST_P(RankFailure, StopsAllAndNamesTheCause) {
  const auto [phase, failure] = GetParam();
  const Folder folder;
  const std::string job = small_job(folder, "llama", "collective_timeout_seconds = 600\nsteps = 100000\n");
  write_text(folder / "job.toml", [&] {
    std::string text = read_text(job);
    text.erase(text.find("steps = 6\n"), 10);
    return text;
  }());
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = muster(
      "train " + job + " --procs 3 --set training.global_batch_size=6 --run " + (folder / "run").string(),
      std::string("MUSTER_FAULT=rank=2,step=2,phase=") + phase + ",action=" + failure.action);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr(failure.said));
  EXPECT_LT(outcome.err.find("rank 2 "), outcome.err.find("rank 0 ")) << outcome.err;
  EXPECT_LT(seconds, 20);
  EXPECT_EQ(processes_of(folder), 0);
}

INSTANTIATE_TEST_SUITE_P(Phases, RankFailure,
                         ::testing::Combine(::testing::Values("forward", "backward", "reduce", "update"),
                                            ::testing::Values(Failure{"exit:17", "rank 2 exited with 17"},
                                                              Failure{"kill", "rank 2 was killed by SIGKILL"},
                                                              Failure{"throw", "rank 2 exited with"})));

}  // namespace
}  // namespace muster::test
