// The optimizer's state off the device: two accounts, each as rehearsed, and the same bits; in a file,
// whatever carries it and whatever becomes of it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "base/units.h"
#include "tests/faults/runs.h"
#include "tests/ranks/proofs.h"

namespace muster::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHost = " --set layout.offload=host";
std::string in_file(const fs::path& folder) {
  return " --set layout.offload=file --set layout.offload_path=" + folder.string();
}

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
    for (const std::string& place : {std::string(kHost), in_file(folder.path())}) {
      SCOPED_TRACE(more + place);
      expect_every_proof(small_job(folder, family) + place + " " + more, procs);
    }
  }
}

// The state is all that moves from one account to the other.
TEST(Offload, TakesTheStateOffTheDeviceAndNothingElse) {
  const Folder folder;
  const std::string job = small_job(folder, "llama");
  for (const Layout& layout : kLayouts)
    for (const std::string& place : {std::string(kHost), in_file(folder.path())}) {
      SCOPED_TRACE(layout.settings + place);
      const Json with = rehearsed(job, layout), without = rehearsed(job, layout, place);
      const int64_t state = with["persistent_bytes"]["optimizer"];
      EXPECT_GT(state, 0);
      EXPECT_EQ(with["host"]["optimizer_bytes"], 0);
      EXPECT_EQ(without["persistent_bytes"]["optimizer"], 0);
      EXPECT_EQ(without["persistent_bytes"]["parameters"], with["persistent_bytes"]["parameters"]);
      EXPECT_EQ(without["peak_bytes"], with["peak_bytes"].get<int64_t>() - state);
      EXPECT_EQ(without["messages"], with["messages"]);
      const int64_t file = without["host"]["optimizer_file_bytes"];
      if (place == kHost) {
        EXPECT_EQ(without["host"]["optimizer_bytes"], state);
        EXPECT_EQ(file, 0);
      } else {  // rounded up, a part at a time
        EXPECT_GE(file, state);
        EXPECT_LT(file, state + 64 * 2 * 4096);
        EXPECT_GT(without["host"]["optimizer_bytes"], 0);
      }
    }
  EXPECT_THAT(muster("rehearse " + job + kHost).out, HasSubstr("host: optimizer state"));
  EXPECT_THAT(muster("rehearse " + job + in_file(folder.path())).out, HasSubstr("file: optimizer state"));
}

TEST(Offload, TrainsToTheSameBits) {
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(layout.settings);
    const Folder folder;
    const std::string job = on(nine_steps(folder, 0), layout);
    ASSERT_EQ(train(folder, "with", job).status, 0);
    for (const std::string& place : {std::string(kHost), in_file(folder.path())}) {
      SCOPED_TRACE(place);
      const Outcome off = train(folder, "without", job + place);
      ASSERT_EQ(off.status, 0) << off.err;
      expect_equal_runs(folder, "with", "without");
      const Json summary = Json::parse(read_text(folder / "without/summary.json"));
      EXPECT_GT(summary["measured_memory"]["host_optimizer"], 0);
      for (const char* figure : {"host_optimizer", "optimizer", "peak_bytes"})
        EXPECT_EQ(summary["measured_memory"][figure], summary["rehearsed_memory"][figure]) << figure;
      fs::remove_all(folder / "without");
    }
  }
}

// Where the state lives is no part of what a checkpoint promises: one that is written beside training or at
// once is read on any side.
TEST(Offload, AReplayGoesOnFromEverySide) {
  for (const auto& [before, after] :
       {std::pair("none", "host"), {"host", "none"}, {"file", "none"}, {"host", "file"}, {"file", "file"}})
    for (const char* async : {"true", "false"}) {
      SCOPED_TRACE(fmt::format("{} -> {}, async {}", before, after, async));
      const Folder folder;
      const std::string job =
          nine_steps(folder, 3) + " --procs 2 --set layout.zero=2 --set checkpoint.async=" + async;
      const auto at = [&](const std::string& place) {
        return job + (place == "file" ? in_file(folder.path()) : " --set layout.offload=" + place);
      };
      ASSERT_EQ(train(folder, "whole", at("none")).status, 0);
      EXPECT_NE(train(folder, "run", at(before), "rank=1,step=8,phase=backward,action=kill").status, 0);
      const Outcome resumed = train(folder, "run", at(after) + " --resume");
      ASSERT_EQ(resumed.status, 0) << resumed.err;
      EXPECT_THAT(resumed.err, HasSubstr("(deterministic-replay)"));
      expect_equal_runs(folder, "whole", "run");
    }
}

// Ranks that own nothing of a tensor agree with the others on what it is made of.
TEST(Offload, MomentsOfBfloat16AreSavedBySharesAndReadAgain) {
  for (const std::string place : {"none", "host", "file"}) {
    SCOPED_TRACE(place);
    const Folder folder;
    const std::string job = nine_steps(folder, 3) +
                            " --procs 2 --set layout.zero=1 --set numerics.optimizer=bfloat16" +
                            (place == "file" ? in_file(folder.path()) : " --set layout.offload=" + place);
    ASSERT_EQ(train(folder, "whole", job).status, 0);
    EXPECT_NE(train(folder, "run", job, "rank=1,step=8,phase=backward,action=kill").status, 0);
    const Outcome resumed = train(folder, "run", job + " --resume");
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_THAT(resumed.err, HasSubstr("resumed from step-0000000"));
    expect_equal_runs(folder, "whole", "run");
  }
}

// A device with room for all but the state: refused with what is needed and found, and with the state off it
// the run that an unbounded device would make.
TEST(Offload, AModelWhoseStateExceedsTheDeviceTrainsToTheSameBits) {
  const Folder folder;
  const Layout layout{2, "--set layout.zero=1"};
  const std::string file = nine_steps(folder, 0), job = on(file, layout);
  const int64_t needed = rehearsed(file, layout)["peak_bytes"],
                found = rehearsed(file, layout, kHost)["peak_bytes"];
  const auto bounded = [](int64_t bytes) { return fmt::format(" --set hardware.memory_bytes={}", bytes); };
  const Outcome refused = train(folder, "refused", job + bounded(found));
  EXPECT_EQ(refused.status, 2);
  for (const std::string& figure :
       {fmt::format("hardware.memory_bytes = {}", found), format_exact(needed) + " bytes",
        std::string("layout.offload = \"host\"")})
    EXPECT_THAT(refused.err, HasSubstr(figure));
  EXPECT_FALSE(fs::exists(folder / "refused"));
  EXPECT_EQ(train(folder, "refused", job + kHost + bounded(found - 1)).status, 2);

  ASSERT_EQ(train(folder, "unbounded", job).status, 0);
  for (const std::string& place : {std::string(kHost), in_file(folder.path())}) {
    const Outcome trained = train(folder, "bounded", job + place + bounded(found));
    ASSERT_EQ(trained.status, 0) << trained.err;
    expect_equal_runs(folder, "unbounded", "bounded");
    fs::remove_all(folder / "bounded");
  }
  EXPECT_EQ(rehearsed(file, layout, bounded(found))["device"]["fits"], false);
  EXPECT_EQ(rehearsed(file, layout, kHost + bounded(found))["device"]["fits"], true);
}

// ---- the file ----

// Three blocks give more parts than the ring has buffers.
std::string long_job(const Folder& folder, int every) {
  return nine_steps(folder, every) + kAtOnce;
}

Outcome traced(const Folder& folder, const std::string& name, const std::string& job,
               const std::string& calls) {
  return run(
      fmt::format("strace -f -qq -e trace=pread64,pwrite64,io_uring_setup,io_uring_enter -o {} "
                  "{} {}/muster train {} --run {}",
                  (folder / "strace").string(), calls, BINARY_ROOT, job, (folder / name).string()));
}

constexpr const char* kNoRing = "-e inject=io_uring_setup:error=EPERM";

// A kernel that has no io_uring for the process: threads, said so, and the same bits; the bytes that the run
// tells of are those that the updates moved.
TEST(OffloadToAFile, GoesByThreadsWhereThereIsNoRing) {
  const Folder folder;
  const std::string job = long_job(folder, 0), off = job + in_file(folder.path());
  ASSERT_EQ(train(folder, "whole", job).status, 0);
  const int64_t bytes = rehearsed(job.substr(0, job.find(' ')), {1, ""},
                                  in_file(folder.path()))["host"]["optimizer_file_bytes"];
  for (const bool ring : {true, false}) {
    const std::string name = ring ? "ring" : "threads";
    const Outcome outcome = ring ? train(folder, name, off) : traced(folder, name, off, kNoRing);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(ring ? ", io_uring" : "threads (io_uring: Operation not permitted)"));
    expect_equal_runs(folder, "whole", name);
    const Json summary = Json::parse(read_text(folder / (name + "/summary.json"))),
               file = summary["state_file"];
    // The last writes may still be under way when the last step ends.
    EXPECT_LE(file["written_bytes"], 9 * bytes);
    EXPECT_GE(file["written_bytes"], 8 * bytes);
    EXPECT_GE(file["read_bytes"], 9 * bytes);
    EXPECT_GT(file["busy_seconds"], 0);
    EXPECT_GT(file["exposed_seconds"], 0);
    EXPECT_LE(file["exposed_seconds"], summary["wall_seconds"]);
    EXPECT_EQ(summary["lost_seconds"]["state_file"], file["exposed_seconds"]);
    std::printf("%s: %.1f MiB moved at %.0f MB/s, exposed %.1f ms of %.1f ms\n", name.c_str(),
                (file["read_bytes"].get<double>() + file["written_bytes"].get<double>()) / MiB,
                (file["read_bytes"].get<double>() + file["written_bytes"].get<double>()) / 1e6 /
                    file["busy_seconds"].get<double>(),
                1e3 * file["exposed_seconds"].get<double>(), 1e3 * file["busy_seconds"].get<double>());
    EXPECT_TRUE(read_metrics(folder / name)[4]["state_file"].is_object());
    EXPECT_THAT(read_text(folder / (name + "/report.html")),
                HasSubstr("optimizer's state of rank 0 is in a file"));
  }
}

// Killed as it hands a write to the kernel, in the middle of an update: what it had written is gone with it,
// and the run goes on from its checkpoint to the same bits.
TEST(OffloadToAFile, KilledInTheMiddleOfAWriteItGoesOnFromTheCheckpoint) {
  const Folder folder;
  const std::string job = long_job(folder, 1);
  ASSERT_EQ(train(folder, "whole", job).status, 0);
  const fs::path disk = folder / "disk";
  fs::create_directory(disk);
  int number = 0;
  for (const std::string& kill : {std::string(kNoRing) + " -e inject=pwrite64:signal=KILL:when=60",
                                  std::string("-e inject=io_uring_enter:signal=KILL:when=200")}) {
    const std::string name = "run" + std::to_string(++number);
    EXPECT_EQ(traced(folder, name, job + in_file(disk), kill).status, 128 + SIGKILL);
    const size_t done = read_metrics(folder / name).size();
    EXPECT_GE(done, 2u);
    EXPECT_LT(done, 9u);
    EXPECT_TRUE(fs::is_empty(disk));
    const Outcome resumed = train(folder, name, job + in_file(disk) + " --resume");
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_THAT(resumed.err, HasSubstr("resumed from step-0000000"));
    expect_equal_runs(folder, "whole", name);
  }
}

// A kernel that is short of something takes a transfer later, and takes it once.
TEST(OffloadToAFile, ARingThatIsRefusedForAWhileGoesOn) {
  const Folder folder;
  const std::string job = long_job(folder, 0);
  ASSERT_EQ(train(folder, "whole", job).status, 0);
  for (const char* calls : {"EAGAIN:when=4+3", "EINTR:when=20"}) {
    const Outcome outcome = traced(folder, "run", job + in_file(folder.path()),
                                   fmt::format("-e inject=io_uring_enter:error={}", calls));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    expect_equal_runs(folder, "whole", "run");
    fs::remove_all(folder / "run");
  }
}

// While a checkpoint is read, too: it is whole, whatever becomes of the file that it is read into.
TEST(OffloadToAFile, ADiskThatFailsDoesNotMakeACheckpointADamagedOne) {
  const Folder folder;
  const std::string job = long_job(folder, 3) + in_file(folder.path());
  EXPECT_NE(train(folder, "run", job, "rank=0,step=8,phase=backward,action=kill").status, 0);
  const Outcome failed = traced(folder, "run", job + " --resume",
                                fmt::format("{} -e inject=pwrite64:error=EIO:when=3", kNoRing));
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, HasSubstr("optimizer-state-of-rank-0: write of "));
  EXPECT_THAT(failed.err, Not(HasSubstr("is not used")));
  EXPECT_EQ(train(folder, "run", job + " --resume").status, 0);
}

TEST(OffloadToAFile, ADiskThatFailsIsNamedWithItsFirstCause) {
  const Folder folder;
  const std::string job = long_job(folder, 0) + in_file(folder.path());
  const std::string threads = std::string(kNoRing) + " -e inject=";
  for (const auto& [calls, said] :
       {std::pair(threads + "pwrite64:error=ENOSPC:when=30", "No space left on device"),
        {threads + "pread64:error=EIO:when=30+", "Input/output error"},
        {"-e inject=io_uring_enter:error=EIO:when=20+", "Input/output error"}}) {
    const Outcome outcome = traced(folder, "run", job, calls);
    EXPECT_EQ(outcome.status, 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr((folder / "optimizer-state-of-rank-0").string() + ": "));
    EXPECT_THAT(outcome.err, HasSubstr(said));
    fs::remove_all(folder / "run");
  }
}

TEST(OffloadToAFile, AFolderThatCannotTakeItIsRefusedBeforeTheFirstStep) {
  const Folder folder;
  const std::string job = long_job(folder, 0) + " --procs 2";
  const Outcome none = train(folder, "run", job + in_file(folder / "none"));
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("layout.offload_path"));
  EXPECT_THAT(none.err, HasSubstr("No such file or directory"));

  const fs::path disk = folder / "disk";
  fs::create_directory(disk);
  ASSERT_EQ(::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k"), 0) << "needs the right to mount";
  const Outcome small = train(folder, "run", job + in_file(disk));
  ::umount2(disk.c_str(), MNT_DETACH);
  const Json rank = rehearsed(job.substr(0, job.find(' ')), {2, ""}, in_file(folder.path()));
  const int64_t needed = 2 * rank["host"]["optimizer_file_bytes"].get<int64_t>();
  EXPECT_EQ(small.status, 2);
  EXPECT_THAT(small.err, HasSubstr("has 65,536 bytes free"));
  EXPECT_THAT(small.err, HasSubstr("ranks 0 to 1 takes " + format_exact(needed)));
  EXPECT_FALSE(fs::exists(folder / "run"));
}

}  // namespace
}  // namespace muster::test
