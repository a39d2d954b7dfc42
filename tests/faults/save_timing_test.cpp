// When a run saves and when it gives a save up, what it asks of its data and its disk before the first step,
// and what does not stop it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "base/units.h"
#include "tests/faults/runs.h"
#include "tests/traced_process.h"

namespace muster::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A run under strace, which holds every fsync of every process for so long.
std::string with_slow_disk(const std::string& arguments, double seconds) {
  return fmt::format(
      "strace -f -o /dev/null -e trace=fsync -e inject=fsync:delay_enter={} {}/muster train {}",
      static_cast<int64_t>(1e6 * seconds), BINARY_ROOT, arguments);
}

int64_t lines_of(const fs::path& file) {
  if (!fs::exists(file)) return 0;
  const std::string text = read_text(file);
  return std::ranges::count(text, '\n');
}

size_t count(const std::string& text, const std::string& part) {
  size_t number = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++number;
  return number;
}

// A run that would never end, on a slow disk, and signals to the program itself once it trains; strace passes
// none on.
class Interrupted {
 public:
  Interrupted(const std::string& more, double fsync_seconds)
      : strace_(with_slow_disk(nine_steps(folder_, 1000000) + " --set training.steps=100000 --run " +
                                   (folder_ / "run").string() + more,
                               fsync_seconds),
                files_.path()) {
    wait_until("step 3", [&] { return lines_of(folder_ / "run/metrics.jsonl") >= 3; });
    std::istringstream(read_proc(fmt::format("/proc/{0}/task/{0}/children", strace_.id()))) >> program_;
  }
  void signal(int number) { ::kill(program_, number); }
  Outcome outcome() { return strace_.outcome(); }

 private:
  Folder folder_, files_;
  Process strace_;
  pid_t program_ = 0;
};

// RELIABILITY scenarios 28 and 44: a save that the disk does not take within the grace is given up, and the
// log says which steps that loses.
TEST(SaveTiming, S28_S44_WhatIsNotDurableWithinTheGraceIsGivenUp) {
  Interrupted run(" --set checkpoint.grace_seconds=0.2", 1);
  run.signal(SIGTERM);
  const Outcome stopped = run.outcome();
  EXPECT_EQ(stopped.status, 143) << stopped.err;
  EXPECT_THAT(stopped.err,
              HasSubstr("was given up, and training goes on: rank 0: the grace of 0.2 s is over"));
  EXPECT_THAT(stopped.err, HasSubstr("and the steps after 0 are lost"));
  EXPECT_THAT(stopped.err, Not(HasSubstr(": durable")));
}

// A second SIGINT ends at once what the first would have saved.
TEST(SaveTiming, S44_ASecondInterruptEndsAtOnce) {
  Interrupted run(kAtOnce, 1);
  run.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  run.signal(SIGINT);
  const Outcome stopped = run.outcome();
  EXPECT_EQ(stopped.status, 130) << stopped.err;
  EXPECT_THAT(stopped.err, AllOf(HasSubstr(": requested"), Not(HasSubstr(": durable"))));
}

// A save that is due while one is written waits for it, aloud; all are durable in the end.
TEST(SaveTiming, S28_ASaveThatIsDueDuringAnotherWaitsAloud) {
  const Folder folder;
  const std::string job = nine_steps(folder, 3);
  ASSERT_EQ(train(folder, "whole", job).status, 0);
  const Outcome slow = run(with_slow_disk(job + " --run " + (folder / "slow").string(), 0.3));
  ASSERT_EQ(slow.status, 0) << slow.err;
  EXPECT_THAT(slow.err, HasSubstr("checkpoint of step 6: that of step 3 is still being written"));
  EXPECT_EQ(count(slow.err, ": durable"), 3u) << slow.err;
  expect_equal_runs(folder, "whole", "slow");
}

TEST(SaveTiming, EveryMinutesGoesByTheClock) {
  const Folder folder;
  const std::string job = nine_steps(folder, 0) + " --set training.steps=100000 --procs 2";
  const std::string path = (folder / "run").string();
  const Folder files;
  Process process(
      fmt::format("{}/muster train {} --set checkpoint.every_minutes=0.005 --run {}", BINARY_ROOT, job, path),
      files.path());
  const auto start = std::chrono::steady_clock::now();
  const auto durable = [&] { return count(read_text(files / "err"), ": durable"); };
  wait_until("four checkpoints are durable", [&] { return fs::exists(files / "err") && durable() >= 4; });
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_GT(taken.count(), 4 * 0.3) << "one every 0.3 s";
  ::kill(process.id(), SIGTERM);
  const Outcome stopped = process.outcome();
  EXPECT_EQ(stopped.status, 143) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr(", saved"));
}

// The interval is said with its reason, and is kept: the fourth step saves, then the interval runs.
TEST(SaveTiming, AdaptiveSaysItsIntervalAndKeepsIt) {
  const Folder folder;
  const std::string job = nine_steps(folder, 0) +
                          " --set training.steps=60 --set checkpoint.adaptive=true"
                          " --set checkpoint.hours_between_interruptions=0.001";
  const Outcome outcome = train(folder, "run", job);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("checkpoint of step 3: requested"));
  EXPECT_THAT(outcome.err, HasSubstr("Daly"));
  const size_t saves = count(outcome.err, ": requested");
  EXPECT_GE(saves, 1u);
  EXPECT_LT(saves, 30u);
  EXPECT_EQ(count(outcome.err, ": durable"), saves);
}

// What a rehearsal says of a rank's host memory is what its first save takes.
TEST(SaveTiming, TheRehearsedSnapshotIsTheOneTaken) {
  const Folder folder;
  for (const char* layout : {"--set layout.zero=0", "--set layout.zero=1", "--set layout.tensor=2"}) {
    const std::string job = nine_steps(folder, 9) + " " + layout;
    const Outcome rehearsed = muster("rehearse " + job + " --world 2 --json");
    ASSERT_EQ(rehearsed.status, 0) << rehearsed.err;
    const Json rehearsal = Json::parse(rehearsed.out);
    const int64_t bytes = rehearsal["host"]["snapshot_bytes"];
    EXPECT_GT(bytes, 100'000);
    const Outcome trained = train(folder, layout + 6, job + " --procs 2");
    EXPECT_THAT(trained.err, HasSubstr(fmt::format("snapshots take {} of host memory", format_bytes(bytes))));
    const Outcome without = muster("rehearse " + job + kAtOnce + " --world 2 --json");
    EXPECT_EQ(Json::parse(without.out)["host"]["snapshot_bytes"], 0);
  }
}

// What saves and the ranks' words about them take is none of a step's memory.
TEST(SaveTiming, AStepTakesTheRehearsedPeakWhateverIsSaved) {
  const Folder folder;
  for (const auto& [name, layout] :
       {std::pair<std::string, const char*>("sharded", "--procs 2 --set layout.zero=3"),
        {"split", "--procs 4 --set layout.tensor=2"}}) {
    const std::string job = nine_steps(folder, 2) + kAtOnce + " " + layout;
    EXPECT_NE(train(folder, name, job, "rank=0,step=6,phase=forward,action=kill").status, 0);
    ASSERT_EQ(train(folder, name, job + " --resume").status, 0);
    const Json summary = Json::parse(read_text(folder / (name + "/summary.json")));
    const Json peak = summary["rehearsed_memory"]["peak_bytes"];
    EXPECT_EQ(summary["measured_memory"]["peak_bytes"], peak);
    for (const Json& step : read_metrics(folder / name)) EXPECT_EQ(step["peak_bytes"], peak) << step;
  }
}

// RELIABILITY scenario 49: other data is refused by size and hash, by name, with the way out; the same data
// elsewhere in time is not.
TEST(Data, S49_OtherDataIsRefused) {
  const Folder folder;
  const std::string job = nine_steps(folder, 3) + " --procs 2" + kAtOnce;
  ASSERT_EQ(train(folder, "whole", job).status, 0);
  EXPECT_NE(train(folder, "run", job, "rank=0,step=5,phase=forward,action=kill").status, 0);
  const std::string ids = read_text(folder / "tokens.bin");
  const std::string kept = read_text(folder / "run/metrics.jsonl");
  std::string other = ids;
  other[100] ^= 1;
  for (const std::string& text : {other, ids + std::string(48, '\0')}) {
    write_text(folder / "tokens.bin", text);
    const Outcome refused = train(folder, "run", job + " --resume");
    EXPECT_EQ(refused.status, 2) << refused.err;
    EXPECT_THAT(
        refused.err,
        AllOf(HasSubstr("data.path = " + (folder / "tokens.bin").string()), HasSubstr("holds other data"),
              HasSubstr(fmt::format("({} bytes, xxh3 ", text.size())),
              HasSubstr(fmt::format("had ({} bytes, xxh3 ", ids.size())), HasSubstr("model.weights")));
  }
  fs::remove(folder / "tokens.bin");
  const Outcome missing = train(folder, "run", job + " --resume");
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err, HasSubstr("tokens.bin"));
  EXPECT_EQ(read_text(folder / "run/metrics.jsonl"), kept) << "nothing was touched";
  write_text(folder / "tokens.bin", ids);
  EXPECT_EQ(train(folder, "run", job + " --resume").status, 0);
  expect_equal_runs(folder, "whole", "run");
}

// RELIABILITY scenario 29: killed while it loads, by the kernel, at the n-th read of a shard: nothing was
// changed, and the next start loads the same.
TEST(Load, S29_AKillDuringALoadChangesNothing) {
  const Folder folder;
  const std::string job = nine_steps(folder, 3) + " --procs 2" + kAtOnce;
  ASSERT_EQ(train(folder, "whole", job).status, 0);
  EXPECT_NE(train(folder, "base", job, "rank=0,step=8,phase=forward,action=kill").status, 0);
  const int points = is_soak() ? 20 : 4;
  int killed = 0;
  for (int number = 1; number <= points; ++number) {
    fs::remove_all(folder / "run");
    fs::copy(folder / "base", folder / "run", fs::copy_options::recursive);
    const Outcome outcome = run(fmt::format(
        "strace -f -o /dev/null -P {0} -e trace=openat,pread64 -e inject=openat,pread64:signal=KILL:when={1} "
        "{2}/muster train {3} --resume --run {4}",
        checkpoint(folder, "run", "step-00000006.g1").string(), number, BINARY_ROOT, job,
        (folder / "run").string()));
    killed += outcome.status != 0;
    const Outcome resumed = train(folder, "run", job + " --resume");
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    expect_equal_runs(folder, "whole", "run");
  }
  EXPECT_GT(killed, 0);
}

// RELIABILITY scenario 24: what can be known before the first step is.
TEST(Disk, S24_APlaceThatCannotBeWrittenIsRefusedBeforeTheFirstStep) {
  const Folder folder;
  const std::string job = nine_steps(folder, 3);
  const std::string place = (folder / "place").string();
  fs::create_directories(place);
  ASSERT_EQ(::mount("tmpfs", place.c_str(), "tmpfs", MS_RDONLY, "size=1m"), 0) << "needs the right to mount";
  const Outcome read_only = muster("train " + job + " --run " + place + "/run");
  ::umount2(place.c_str(), MNT_DETACH);
  EXPECT_EQ(read_only.status, 2);
  EXPECT_THAT(read_only.err, AllOf(HasSubstr("--run"), HasSubstr("Read-only file system")));

  const Outcome too_long = muster("train " + job + " --run " + place + "/" + std::string(300, 'x'));
  EXPECT_EQ(too_long.status, 2);
  EXPECT_THAT(too_long.err, HasSubstr("File name too long"));

  fs::create_directories(folder / "run");
  write_text(folder / "run/checkpoints", "no folder");
  const Outcome in_the_way = train(folder, "run", job + " --resume");
  EXPECT_NE(in_the_way.status, 0);
  EXPECT_THAT(in_the_way.err, HasSubstr("checkpoints"));
  EXPECT_EQ(lines_of(folder / "run/metrics.jsonl"), 0);
}

// RELIABILITY scenario 47: nobody listens to the log, or its disk is full.
TEST(Log, S47_ALogThatNobodyTakesStopsNothing) {
  const Folder folder;
  const std::string job = nine_steps(folder, 3);
  ASSERT_EQ(train(folder, "whole", job).status, 0);
  const std::string program = std::string(BINARY_ROOT) + "/muster train " + job + " --run ";
  EXPECT_EQ(run(program + (folder / "closed").string() + " >&- 2>&-").status, 0);
  EXPECT_EQ(run(program + (folder / "full").string() + " 2>/dev/full >/dev/full").status, 0);
  EXPECT_EQ(run("( " + program + (folder / "gone").string() + "; echo $? >" + (folder / "status").string() +
                " ) 2>&1 | true")
                .status,
            0);
  EXPECT_EQ(read_text(folder / "status"), "0\n");
  // A reader that stands still until the run is over, and then reads what the pipe held: far less than all.
  const std::string still = " --set training.steps=900 --set checkpoint.every=1000";
  EXPECT_EQ(run("( " + program + (folder / "still").string() + still + "; echo $? >" +
                (folder / "status").string() + " ) 2>&1 >/dev/null | ( while [ ! -e " +
                (folder / "still/summary.json").string() + " ]; do sleep 0.1; done; cat >" +
                (folder / "held").string() + " )")
                .status,
            0);
  EXPECT_EQ(read_text(folder / "status"), "0\n");
  EXPECT_EQ(lines_of(folder / "still/metrics.jsonl"), 900);
  EXPECT_LT(lines_of(folder / "held"), 900);
  for (const char* name : {"closed", "full", "gone"}) expect_equal_runs(folder, "whole", name);
}

}  // namespace
}  // namespace muster::test
