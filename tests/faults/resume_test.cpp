// A run that is killed and goes on is, bit for bit, the run that was not: losses after the resume and final
// weights, under the contract deterministic-replay.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <random>

#include "tests/faults/runs.h"
#include "tests/traced_process.h"

namespace muster::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Resume, KilledAnywhereItEndsWithTheSameBits) {
  for (const char* procs : {"1", "2"}) {
    const Folder folder;
    const std::string job = nine_steps(folder, 3) + " --procs " + procs + kAtOnce;
    ASSERT_EQ(train(folder, "whole", job).status, 0);
    int number = 0;
    for (const char* fault : {"step=5,phase=forward,action=kill", "step=4,phase=backward,action=exit:9",
                              "step=8,phase=reduce,action=kill", "step=6,phase=update,action=exit:9",
                              "step=6,phase=save,action=kill", "step=7,phase=forward,action=exit:9"}) {
      const std::string run = "run" + std::to_string(++number);
      const std::string rank = std::string(procs) == "2" ? std::to_string(number % 2) : "0";
      const Outcome killed = train(folder, run, job, "rank=" + rank + "," + fault);
      EXPECT_NE(killed.status, 0) << fault;
      const Outcome resumed = train(folder, run, job + " --resume");
      EXPECT_EQ(resumed.status, 0) << fault << "\n" << resumed.err;
      EXPECT_THAT(resumed.err, HasSubstr("resumed from step-0000000")) << fault;
      expect_equal_runs(folder, "whole", run);
    }
  }
}

// Layouts that split or shard what a rank holds, and their compositions; the fifth has padded vocabularies
// and key-value heads that two ranks share. More of them: add a line.
constexpr const char* kLayouts[] = {
    "--procs 4",
    "--procs 2 --set layout.zero=1",
    "--procs 2 --set layout.zero=2",
    "--procs 4 --set layout.zero=3",
    "--procs 4 --set layout.tensor=4 --set layout.sequence_parallel=true --set model.vocab_size=66",
    "--procs 4 --set layout.zero=3 --set layout.replicate=2",
    "--procs 4 --set layout.tensor=2 --set layout.zero=1",
    "--procs 4 --set layout.tensor=2 --set layout.zero=3",
    "--procs 4 --set layout.zero=2 --set layout.tensor=2 --set optimizer.name=muon",
    "--procs 4 --set layout.context=4",
    "--procs 2 --set layout.context=2 --set layout.context_method=all_to_all",
    "--procs 4 --set layout.context=2 --set layout.zero=3",
    "--procs 4 --set layout.context=2 --set layout.context_method=all_to_all --set layout.zero=1",
    "--procs 4 --set layout.context=2 --set layout.tensor=2 --set layout.sequence_parallel=true",
    "--procs 8 --set layout.context=2 --set layout.tensor=2 --set layout.zero=2",
};

constexpr const char* kPhases[] = {"step=5,phase=forward,action=kill", "step=4,phase=backward,action=exit:9",
                                   "step=8,phase=reduce,action=kill", "step=7,phase=update,action=exit:9",
                                   "step=6,phase=save,action=kill"};

// Killed in every phase with MUSTER_SOAK=1, else in two of them, which differ from layout to layout; with
// dropout and accumulation. The norms before and after are those of gradients some of whose shards are empty
// (CASES B094).
TEST(Resume, B094_EveryLayoutEndsWithTheSameBits) {
  const size_t phases = std::size(kPhases), tried = is_soak() ? phases : 2;
  size_t number = 0;
  for (const char* layout : kLayouts) {
    const Folder folder;
    const std::string job = nine_steps(folder, 3) + " " + layout + kAtOnce;
    ASSERT_EQ(train(folder, "whole", job).status, 0) << layout;
    for (size_t kill = 0; kill < tried; ++kill, ++number) {
      const char* fault = kPhases[number % phases];
      SCOPED_TRACE(fmt::format("{}, {}", layout, fault));
      const std::string run = "run" + std::to_string(number);
      EXPECT_NE(train(folder, run, job, fmt::format("rank={},{}", number % 2, fault)).status, 0);
      const Outcome resumed = train(folder, run, job + " --resume");
      ASSERT_EQ(resumed.status, 0) << resumed.err;
      EXPECT_THAT(resumed.err, HasSubstr("(deterministic-replay)"));
      expect_equal_runs(folder, "whole", run);
    }
  }
}

// A layout of the pairs test: processes, and what the job then says.
struct Layout {
  int procs;
  const char* settings;
};

// RELIABILITY scenario 39. One step in another order of sums moves loss and gradient by t = 2^-53 x (4
// micro-batches + 64 other orders) x 2 for cancellation, of themselves (verify/update_equivalence.cpp). An
// update by Adam at rate r turns an error d of a gradient's element into at most r d/|g| of its parameter,
// and that into r d of the loss: all elements together r sqrt(n) |error| <= r sqrt(n) t |g|. With r = 1e-3, n
// = 27,000, |g| < 2 and a loss of 4, the updates before the last of 9 steps add 8 x 1e-3 x 164 x 2 / 4 = 0.66
// t.
constexpr double kTrajectory = 0x1p-53 * (4 + 64) * 2 * 1.66;

void expect_coverage(const std::vector<Layout>& layouts) {
  const Folder folder;
  const std::string job = nine_steps(folder, 4) +
                          " --set numerics.compute=float64 --set model.vocab_size=66 "
                          "--set checkpoint.contract=coverage-equivalent";
  const auto at = [&](const Layout& layout) {
    return fmt::format("{} --procs {} {}", job, layout.procs, layout.settings);
  };
  ASSERT_EQ(train(folder, "whole", at(layouts.front())).status, 0);
  const std::vector<Json> whole = read_metrics(folder / "whole");
  for (const Layout& from : layouts) {
    EXPECT_NE(train(folder, "from", at(from) + kAtOnce, "rank=0,step=7,phase=forward,action=kill").status, 0);
    for (const Layout& to : layouts) {
      SCOPED_TRACE(fmt::format("{} {} -> {} {}", from.procs, from.settings, to.procs, to.settings));
      fs::copy(folder / "from", folder / "run", fs::copy_options::recursive);
      const Outcome resumed = train(folder, "run", at(to) + " --resume");
      ASSERT_EQ(resumed.status, 0) << resumed.err;
      const bool same = &from == &to;
      const char* contract = same ? "deterministic-replay" : "coverage-equivalent";
      EXPECT_THAT(resumed.err, HasSubstr(fmt::format("resumed from step-00000004.g1 ({})", contract)));
      const std::vector<Json> steps = read_metrics(folder / "run");
      ASSERT_EQ(steps.size(), 9u);
      for (size_t step = 0; step < 9; ++step) {
        const double loss = whole[step]["loss"];
        EXPECT_NEAR(steps[step]["loss"].get<double>(), loss, kTrajectory * loss) << "step " << step + 1;
      }
      EXPECT_EQ(steps[4]["resumed"], contract);
      EXPECT_EQ(Json::parse(read_text(folder / "run/summary.json"))["resume_contract"], contract);
      fs::remove_all(folder / "run");
    }
    fs::remove_all(folder / "from");
  }
}

// The whole matrix of pairs is train/reshard_test.cpp; this is the program's own way through it.
TEST(Resume, S39_AnotherLayoutGoesOnWithTheSameSamples) {
  expect_coverage({{1, ""},
                   {4, "--set layout.tensor=2 --set layout.sequence_parallel=true --set layout.zero=2"},
                   {4, "--set layout.zero=3 --set layout.replicate=2"}});
}

// A replay takes the same layout: refused before a process starts, with the way out.
TEST(Resume, AReplayRefusesAnotherLayout) {
  const Folder folder;
  const std::string job = nine_steps(folder, 3);
  ASSERT_EQ(train(folder, "run", job + " --procs 2").status, 0);
  const Outcome refused = train(folder, "run", job + " --procs 1 --resume");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("checkpoint.contract"));
  EXPECT_THAT(refused.err, HasSubstr("layout.data was 2 and is 1"));
  EXPECT_THAT(refused.err, HasSubstr("coverage-equivalent"));
}

// Every byte of the shards of a checkpoint, in the order of their ranks.
std::string shards(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".st") files.push_back(entry.path());
  std::ranges::sort(files);
  std::string bytes;
  for (const fs::path& file : files) bytes += read_text(file);
  return bytes;
}

// With sockets in place of memory sums are made in another order.
TEST(Resume, AReplayTalksThroughTheSame) {
  const Folder folder;
  const std::string job = nine_steps(folder, 3) + " --procs 2";
  EXPECT_NE(train(folder, "run", job, "rank=0,step=8,phase=forward,action=kill").status, 0);
  EXPECT_THAT(read_text(folder / "run/log.txt"), HasSubstr("ranks talk through memory"));
  const std::string more = job + " --resume --set training.host_transport=gloo";
  const Outcome refused = train(folder, "run", more);
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.err, HasSubstr("what the ranks talk through was memory and is gloo"));
  ASSERT_EQ(train(folder, "run", more + " --set checkpoint.contract=coverage-equivalent").status, 0);
  const std::string log = read_text(folder / "run/log.txt");
  EXPECT_THAT(log, HasSubstr("ranks talk through gloo"));
  EXPECT_THAT(log, HasSubstr("(coverage-equivalent)"));
}

// RELIABILITY scenario 27: the writer stands still for 2 s at its first fsync while the updates after 5 run.
TEST(Resume, B027_S27_ASlowSaveIsAllOfItsStep) {
  const Folder folder;
  const std::string job = nine_steps(folder, 5) + " --procs 2";
  ASSERT_EQ(train(folder, "at_once", job + kAtOnce).status, 0);
  const Outcome slow =
      run("strace -f -o /dev/null -e trace=fsync -e inject=fsync:delay_enter=2000000:when=1 " +
          std::string(BINARY_ROOT) + "/muster train " + job + " --run " + (folder / "beside").string());
  ASSERT_EQ(slow.status, 0) << slow.err;
  EXPECT_LT(slow.err.find("checkpoint of step 5: requested"), slow.err.find("step 7/9"));
  EXPECT_LT(slow.err.find("step 7/9"), slow.err.find("checkpoint step-00000005.g1: durable")) << slow.err;
  const std::string name = "step-00000005.g1";
  EXPECT_EQ(shards(checkpoint(folder, "beside", name)), shards(checkpoint(folder, "at_once", name)));
  const Json one = Json::parse(read_text(checkpoint(folder, "beside", name) / "MANIFEST.json"));
  const Json other = Json::parse(read_text(checkpoint(folder, "at_once", name) / "MANIFEST.json"));
  for (const char* key : {"step", "cursor", "learning_rate", "counters", "tensors"})
    EXPECT_EQ(one[key], other[key]) << key;
  const std::vector<Json> steps = read_metrics(folder / "beside");
  EXPECT_EQ(steps[4]["checkpoint_requested"], true);
  EXPECT_EQ(steps[5]["checkpoint_requested"], false);
  expect_equal_runs(folder, "at_once", "beside");
}

// Killed at random moments (200 with MUSTER_SOAK=1), in the background's saves too: what the log called
// durable is there and verifies, the run goes on from it or from a later one, and ends with the same bits.
TEST(Resume, B028_WhatWasAcknowledgedIsThereAfterAnyKill) {
  const Folder folder;
  const std::string job = nine_steps(folder, 1) + " --procs 2";
  ASSERT_EQ(train(folder, "whole", job).status, 0);
  std::mt19937 random(11);
  for (int number = 0; number < (is_soak() ? 200 : 10); ++number) {
    const std::string name = "run" + std::to_string(number), path = (folder / name).string();
    const Outcome killed =
        run(fmt::format("timeout -s KILL {} {}/muster train {} --run {}",
                        0.25 + 0.001 * static_cast<double>(random() % 350), BINARY_ROOT, job, path));
    const size_t said = killed.err.rfind(": durable");
    const std::string newest = said == std::string::npos ? "" : killed.err.substr(said - 16, 16);
    if (!newest.empty()) {
      const Outcome whole = muster("inspect " + checkpoint(folder, name, newest).string());
      EXPECT_EQ(whole.status, 0) << newest << "\n" << whole.err << killed.err;
    }
    const Outcome resumed = train(folder, name, job + " --resume");
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    const size_t from = resumed.err.find("resumed from ");
    if (!newest.empty() && resumed.err.find("nothing is left to do") == std::string::npos) {
      ASSERT_NE(from, std::string::npos) << newest << " was acknowledged\n" << resumed.err;
      EXPECT_GE(resumed.err.substr(from + 13, 13), newest.substr(0, 13));
    }
    expect_equal_runs(folder, "whole", name);
  }
}

// RELIABILITY scenario 48: a run that still trains, and takes each checkpoint away when the next is there, is
// started again. The second start reads slowly; what it chose stays, and the first one is told at its next
// save.
TEST(Resume, S48_ASecondStartFencesTheFirstBeforeItReads) {
  const Folder folder, first_files, second_files;
  const std::string train =
      fmt::format("{}/muster train {} --set training.steps=1000000 --set checkpoint.keep=1 --run {}",
                  BINARY_ROOT, nine_steps(folder, 1), (folder / "run").string());
  const auto says = [](const Folder& files, const std::string& text) {
    return fs::exists(files / "err") && read_text(files / "err").find(text) != std::string::npos;
  };
  Process first(train, first_files.path());
  wait_until("the first start has saved", [&] { return says(first_files, "step-00000009.g1: durable"); });
  Process second("strace -f -o /dev/null -e trace=pread64 -e inject=pread64:delay_enter=50000:when=1..60 " +
                     train + " --resume",
                 second_files.path());
  EXPECT_EQ(first.wait(), 76);
  EXPECT_TRUE(says(first_files, "was taken over by generation 2"));
  wait_until("the second start has saved", [&] { return says(second_files, ".g2: durable"); });
  pid_t program = 0;
  std::istringstream(read_proc(fmt::format("/proc/{0}/task/{0}/children", second.id()))) >> program;
  ::kill(program, SIGTERM);
  const Outcome stopped = second.outcome();
  EXPECT_EQ(stopped.status, 143) << stopped.err;
  EXPECT_THAT(stopped.err, AllOf(HasSubstr("resumed from step-"), Not(HasSubstr("is not used"))));
}

// CASES B015, B017, B019: after a save at the end of an epoch (3) and after one inside the next (4).
TEST(Resume, B015_B017_B019_RateSamplesAndEpochsGoOn) {
  for (int every : {3, 4}) {
    const Folder folder;
    const std::string job = nine_steps(folder, every) + kAtOnce;
    ASSERT_EQ(train(folder, "whole", job).status, 0);
    const std::string dies = "rank=0,step=" + std::to_string(every + 1) + ",phase=backward,action=kill";
    EXPECT_NE(train(folder, "broken", job, dies).status, 0);
    const Outcome resumed = train(folder, "broken", job + " --resume");
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_THAT(resumed.err, HasSubstr("the next sample " + std::to_string(4 * every)));
    expect_equal_runs(folder, "whole", "broken");
    const std::vector<Json> steps = read_metrics(folder / "broken");
    ASSERT_EQ(steps.size(), 9u);
    for (size_t at = 0; at < steps.size(); ++at) {
      EXPECT_EQ(steps[at]["step"], at + 1);
      EXPECT_DOUBLE_EQ(steps[at]["learning_rate"].get<double>(), 1e-3 * static_cast<double>(at + 1) / 10);
    }
  }
}

TEST(Resume, WithoutACheckpointItSaysThatItStartsFromTheStart) {
  const Folder folder;
  const std::string job = nine_steps(folder, 5);
  ASSERT_EQ(train(folder, "whole", job).status, 0);
  EXPECT_NE(train(folder, "broken", job, "rank=0,step=3,phase=forward,action=kill").status, 0);
  const Outcome resumed = train(folder, "broken", job + " --resume");
  EXPECT_EQ(resumed.status, 0);
  EXPECT_THAT(resumed.err, HasSubstr("starts from the start"));
  EXPECT_THAT(resumed.err, HasSubstr("2 steps after step 0 are cut off"));
  expect_equal_runs(folder, "whole", "broken");
}

// Without JOB, the job is the run's own; a run that has ended is left alone.
TEST(Resume, TheRunKnowsItsJob) {
  const Folder folder;
  const std::string job = nine_steps(folder, 3);
  ASSERT_EQ(train(folder, "run", job).status, 0);
  const std::string bits = weights(folder, "run");
  const Outcome again = train(folder, "run", "--resume");
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("is finished, all 9 steps of it: nothing is left to do"));
  EXPECT_EQ(weights(folder, "run"), bits);
  EXPECT_EQ(read_metrics(folder / "run").size(), 9u);
}

TEST(Resume, AnotherJobOrLayoutIsRefusedBeforeAnythingStarts) {
  const Folder folder;
  const std::string job = nine_steps(folder, 3);
  ASSERT_EQ(train(folder, "run", job).status, 0);
  const std::string before = read_text(folder / "run/metrics.jsonl");
  for (const auto& [more, said] : {std::pair("--set training.seed=2", "training.seed"),
                                   {"--set training.steps=7", "training.steps"},
                                   {"--procs 2", "layout.data"}}) {
    const Outcome outcome = train(folder, "run", job + " --resume " + more);
    EXPECT_EQ(outcome.status, 2) << more;
    EXPECT_THAT(outcome.err, HasSubstr(said)) << more;
  }
  EXPECT_EQ(read_text(folder / "run/metrics.jsonl"), before);
  EXPECT_EQ(muster("train " + job + " --resume").status, 2);
}

// A finished run becomes longer where its rates so far would have been the same: the bits are those of a run
// that was as long from the start. Where they follow the end it is refused, with both rates.
TEST(Resume, ARunBecomesLonger) {
  const Folder folder;
  const std::string job = nine_steps(folder, 3) + " --procs 2", longer = job + " --set training.steps=12";
  ASSERT_EQ(train(folder, "long", longer).status, 0);
  ASSERT_EQ(train(folder, "run", job).status, 0);
  const Outcome resumed = train(folder, "run", longer + " --resume");
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("step-00000009.g1 (deterministic-replay)"));
  expect_equal_runs(folder, "long", "run");
  const std::string cosine = " --set optimizer.schedule=cosine --set optimizer.warmup_steps=2";
  ASSERT_EQ(train(folder, "cosine", job + cosine).status, 0);
  const Outcome refused = train(folder, "cosine", longer + cosine + " --resume");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("update 9 was made with rate 0, and with that many steps"));
}

// Its steps are not taken again where no checkpoint holds them, and longer it cannot become without one.
TEST(Resume, AFinishedRunIsLeftAlone) {
  const Folder folder;
  const std::string job = nine_steps(folder, 0);
  ASSERT_EQ(train(folder, "run", job).status, 0);
  const std::string before = read_text(folder / "run/metrics.jsonl");
  EXPECT_EQ(train(folder, "run", job + " --resume").status, 0);
  const Outcome longer = train(folder, "run", job + " --resume --set training.steps=12");
  EXPECT_EQ(longer.status, 2);
  EXPECT_THAT(longer.err, HasSubstr("model.weights="));
  EXPECT_EQ(read_text(folder / "run/metrics.jsonl"), before);
}

// Whatever `every` says, the last step's state is kept.
TEST(Resume, TheLastStepIsSaved) {
  const Folder folder;
  ASSERT_EQ(train(folder, "run", nine_steps(folder, 4)).status, 0);
  EXPECT_EQ(checkpoints(folder, "run"),
            (std::vector<std::string>{"claims", "step-00000008.g1", "step-00000009.g1"}));
}

TEST(Resume, TheNewestKStay) {
  const Folder folder;
  const std::string job = nine_steps(folder, 1) + " --set checkpoint.keep=3";
  ASSERT_EQ(train(folder, "run", job).status, 0);
  EXPECT_EQ(checkpoints(folder, "run"),
            (std::vector<std::string>{"claims", "step-00000007.g1", "step-00000008.g1", "step-00000009.g1"}));
}

// B024 and B028 for a run: what is damaged is named, and what that costs; the one before it is taken.
TEST(Resume, ADamagedCheckpointIsNamedAndThePreviousOneTaken) {
  const Folder folder;
  const std::string job = nine_steps(folder, 2) + " --procs 2" + kAtOnce;
  ASSERT_EQ(train(folder, "whole", job).status, 0);
  std::mt19937 random(3);
  for (int number = 0; number < 4; ++number) {
    const std::string run = "run" + std::to_string(number);
    EXPECT_NE(train(folder, run, job, "rank=0,step=7,phase=forward,action=kill").status, 0);
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry :
         fs::directory_iterator(checkpoint(folder, run, "step-00000006.g1")))
      files.push_back(entry.path());
    std::ranges::sort(files);
    ASSERT_EQ(files.size(), 4u) << "two shards, a manifest, a COMMIT";
    const fs::path& harmed = files[static_cast<size_t>(number)];
    std::string text = read_text(harmed);
    text[random() % text.size()] ^= 0x10;
    write_text(harmed, text);
    const Outcome resumed = train(folder, run, job + " --resume");
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_THAT(resumed.err, HasSubstr("checkpoint step-00000006.g1 is not used, damaged"));
    EXPECT_THAT(resumed.err, HasSubstr("2 steps are lost"));
    EXPECT_THAT(resumed.err, HasSubstr("resumed from step-00000004.g1"));
    expect_equal_runs(folder, "whole", run);
  }
}

TEST(Resume, WhereAllAreDamagedTheRunStops) {
  const Folder folder;
  const std::string job = nine_steps(folder, 3);
  EXPECT_NE(train(folder, "run", job + kAtOnce, "rank=0,step=8,phase=forward,action=kill").status, 0);
  for (const char* name : {"step-00000003.g1", "step-00000006.g1"})
    write_text(checkpoint(folder, "run", name) / "COMMIT", "");
  const Outcome resumed = train(folder, "run", job + " --resume");
  EXPECT_EQ(resumed.status, 1);
  EXPECT_THAT(resumed.err, HasSubstr("no checkpoint of"));
  EXPECT_EQ(read_metrics(folder / "run").size(), 7u);
}

// RELIABILITY scenario 16: a first update that throws the weights out of range, and no finite gradient after
// it. The run stops after two, on all ranks, each time that it is started.
TEST(Resume, S16_TwoUpdatesWithoutAFiniteGradientStopTheRun) {
  const Folder folder;
  const std::string job = nine_steps(folder, 1) + " --procs 2 --set optimizer.warmup_steps=0 " +
                          "--set optimizer.learning_rate=1e38" + kAtOnce;
  const std::string told =
      "updates 2 to 3 had gradients that are not finite, on samples 4 to 11, and were skipped";
  const Outcome stopped = train(folder, "run", job);
  EXPECT_EQ(stopped.status, 1);
  EXPECT_THAT(stopped.err, HasSubstr(told));
  EXPECT_THAT(stopped.err, HasSubstr("the weights are those after update 1"));
  const std::vector<Json> steps = read_metrics(folder / "run");
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0]["skipped"], false);
  EXPECT_EQ(steps[1]["skipped"], true);
  EXPECT_EQ(steps[2]["skipped"], true);
  EXPECT_THAT(train(folder, "run", job + " --resume").err, HasSubstr("updates 3 to 4 had gradients"));
  EXPECT_EQ(train(folder, "on", job + " --set training.stop_after_skipped=0").status, 0);
  EXPECT_EQ(read_metrics(folder / "on").size(), 9u);
}

// RELIABILITY scenario 44: SIGTERM and SIGINT save at the next step, the exit status tells, the rest follows.
TEST(Resume, S44_AStopSavesFirst) {
  for (const auto& [procs, signal, status] :
       {std::tuple("1", "TERM", 143), std::tuple("2", "TERM", 143), std::tuple("2", "INT", 130)}) {
    const Folder folder;
    const std::string job = nine_steps(folder, 1000) + " --set training.steps=3000 --procs " + procs;
    const std::string run = (folder / "run").string();
    const std::string script = fmt::format(
        "set -m; {0}/muster train {1} --run {2} & pid=$!; "
        "while kill -0 $pid && [ $(cat {2}/metrics.jsonl | wc -l) -lt 4 ]; do sleep 0.05; done; "
        "kill -{3} $pid; wait $pid",
        BINARY_ROOT, job, run, signal);
    const Outcome stopped = test::run("bash -c '" + script + "'");
    EXPECT_EQ(stopped.status, status) << stopped.err;
    EXPECT_THAT(stopped.err, HasSubstr(std::string("stopped by SIG") + signal + " after step"));
    EXPECT_THAT(stopped.err, HasSubstr("saved"));
    const Json summary = Json::parse(read_text(folder / "run/summary.json"));
    const int64_t last = summary["steps"];
    EXPECT_GE(last, 4);
    EXPECT_THAT(stopped.err, HasSubstr(fmt::format("checkpoint step-{:08}.g1: durable", last)));
    EXPECT_FALSE(fs::exists(folder / "run/weights"));
    const Outcome listed = muster("inspect " + run + " --json");
    EXPECT_EQ(Json::parse(listed.out)["checkpoints"][0]["step"], last);
  }
}

// A full disk: saves are given up aloud, training goes on to its end, and what was there stays.
TEST(Resume, AFullDiskStopsNoTraining) {
  const Folder folder;
  const std::string job = nine_steps(folder, 3);
  ASSERT_EQ(train(folder, "whole", job).status, 0);
  fs::create_directories(folder / "run/checkpoints");
  const std::string disk = (folder / "run/checkpoints").string();
  ASSERT_EQ(::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1400k"), 0) << "needs the right to mount";
  write_text(folder / "run/checkpoints/filler", std::string(size_t{1100} << 10, 'x'));
  // --resume, since the folder is there; there is no checkpoint in it.
  const Outcome outcome = train(folder, "run", job + " --resume");
  ::umount2(disk.c_str(), MNT_DETACH);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("was given up, and training goes on"));
  expect_equal_runs(folder, "whole", "run");
}

TEST(Inspect, ListsAndChecks) {
  const Folder folder;
  ASSERT_EQ(train(folder, "run", nine_steps(folder, 3)).status, 0);
  const Outcome listed = muster("inspect " + (folder / "run").string() + " --json");
  ASSERT_EQ(listed.status, 0) << listed.err;
  const Json all = Json::parse(listed.out)["checkpoints"];
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["name"], "step-00000009.g1");
  EXPECT_EQ(all[0]["standing"], "valid");
  EXPECT_EQ(all[0]["next_sample"], 36);
  const fs::path newest = checkpoint(folder, "run", "step-00000009.g1");
  const Outcome whole = muster("inspect " + newest.string() + " --json --tensors");
  EXPECT_EQ(whole.status, 0) << whole.err;
  const Json manifest = Json::parse(whole.out);
  EXPECT_EQ(manifest["valid"], true);
  EXPECT_EQ(manifest["counters"]["optimizer.updates"], 9);
  EXPECT_EQ(manifest["tensors"].size() % 3, 0u) << "a value and two moments each";
  const std::string shard = manifest["files"][0]["name"];
  fs::resize_file(newest / shard, 100);
  const Outcome cut = muster("inspect " + newest.string() + " --json");
  EXPECT_EQ(cut.status, 1);
  EXPECT_THAT(Json::parse(cut.out)["reason"].get<std::string>(), HasSubstr(shard));
}

}  // namespace
}  // namespace muster::test
