// A save that is cut off, or whose disk fails, at each of its system calls, in the program as it runs on four
// ranks: strace holds the thread that writes one rank's part. RELIABILITY scenarios 21, 22, 23 and 25.
//
// A run saves step 1 and dies. From copies of its folder the run is resumed; one rank stops before it saves
// step 2, strace takes hold of its writer, which has made no call yet, and lets one call fail.
// With MUSTER_SOAK=1 every call of the save is tried, else some of those that change the disk.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "tests/traced_process.h"

namespace muster::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The number-th call of this name by the writer.
struct Call {
  std::string name;
  int number = 0;
  std::string line;  // of the trace
  std::string text() const { return fmt::format("{} {}: {}", name, number, line); }
  bool changes_disk() const {
    for (const char* other : {"write", "fsync", "rename", "unlink", "mkdir", "rmdir"})
      if (name.starts_with(other)) return true;
    return line.find("O_CREAT") != line.npos;
  }
};

struct Attacked {
  Outcome run;
  std::vector<Call> calls;  // of the writer
  bool fired = false;
};

std::vector<Call> calls_in(const std::string& trace) {
  std::vector<Call> calls;
  std::map<std::string, int> numbers;
  std::istringstream lines(trace);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find('('));
    // Memory is no file, though strace counts it so.
    if (name.empty() || name.starts_with("mmap") || name.starts_with("---") || name.starts_with("+++") ||
        name.starts_with("strace"))
      continue;
    calls.push_back({name, ++numbers[name], line});
  }
  return calls;
}

// What all tests start from: a run that nobody broke, and one that died after its first checkpoint.
class SaveKills : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new Folder;
    std::string job = small_job(*folder_, "llama", "dropout = 0.1\n[checkpoint]\nevery = 1\nkeep = 1\n");
    std::string text = read_text(job);
    for (const auto& [from, to] : {std::pair("num_hidden_layers = 3", "num_hidden_layers = 1"),
                                   {"steps = 6", "steps = 3"},
                                   {"batch_size = 8", "batch_size = 4"},
                                   {"micro_batch_size = 2", "micro_batch_size = 1"}})
      text.replace(text.find(from), std::string(from).size(), to);
    write_text(job, text);
    arguments_ = "train " + job + " --procs 4 --run ";
    ASSERT_EQ(muster(arguments_ + run("whole")).status, 0);
    ASSERT_NE(muster(arguments_ + run("base") + " --set checkpoint.async=false",
                     "MUSTER_FAULT=rank=0,step=2,phase=forward,action=kill")
                  .status,
              0);
    ASSERT_EQ(checkpoints("base"), (std::vector<std::string>{"claims", "step-00000001.g1"}));
  }
  static void TearDownTestSuite() { delete folder_; }

  static std::string run(const std::string& name) { return (*folder_ / name).string(); }
  static std::vector<std::string> checkpoints(const std::string& name) {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(*folder_ / (name + "/checkpoints")))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }

  // Resumes a copy of the base run, `name`, under strace's `inject` on `rank`'s writer.
  static Attacked attack(const std::string& name, int rank, const std::string& inject) {
    fs::remove_all(run(name));
    fs::copy(run("base"), run(name), fs::copy_options::recursive);
    const Folder launcher_files, strace_files;
    Process launcher(
        fmt::format("env MUSTER_FAULT=rank={},step=2,phase=save,action=stop {}/muster {}{} --resume", rank,
                    BINARY_ROOT, arguments_, run(name)),
        launcher_files.path());
    pid_t stopped = 0;
    wait_until("a rank stops", [&] { return (stopped = stopped_child(launcher.id())) != 0; });
    const pid_t writer = thread_named(stopped, "muster-save");
    // Rank 0 has made the folder: the other need not look for it more than once.
    if (rank != 0) wait_until("rank 0 saves", [&] { return is_under_way(name); });
    Process strace(fmt::format("strace -p {} -o {} -e trace=%file,%desc {}", writer,
                               (strace_files / "trace").string(), inject),
                   strace_files.path());
    wait_until("strace has the writer", [&] { return is_traced(writer); });
    ::kill(stopped, SIGCONT);
    Attacked attacked{launcher.outcome(), {}, false};
    strace.wait();
    const std::string trace = read_text(strace_files / "trace");
    attacked.calls = calls_in(trace);
    attacked.fired = trace.find("INJECTED") != trace.npos || trace.find("killed by SIGKILL") != trace.npos;
    return attacked;
  }

  static bool is_under_way(const std::string& name) {
    return std::ranges::any_of(checkpoints(name), [](auto& entry) { return entry.starts_with(".tmp-"); });
  }

  // The calls of the save of step 2 by `rank`; counted once.
  static const std::vector<Call>& calls_of_a_save(int rank) {
    static std::map<int, std::vector<Call>> counted;
    const auto known = counted.find(rank);
    return known != counted.end() ? known->second : counted[rank] = count_calls(rank);
  }
  static std::vector<Call> count_calls(int rank) {
    Attacked attacked = attack("counted", rank, "");
    EXPECT_EQ(attacked.run.status, 0) << attacked.run.err;
    std::vector<Call>& calls = attacked.calls;
    const auto next = std::ranges::find_if(
        calls, [](const Call& call) { return call.line.find("step-00000003") != call.line.npos; });
    EXPECT_NE(next, calls.end());
    calls.erase(next, calls.end());
    if (!calls.empty() && calls.back().name.starts_with("statfs")) calls.pop_back();  // of the next save
    EXPECT_GT(calls.size(), rank == 0 ? 60u : 10u);
    return std::move(calls);
  }

  // All of them, or about `most` of those that change the disk.
  static std::vector<Call> chosen(int rank, size_t most) {
    std::vector<Call> calls = calls_of_a_save(rank);
    if (is_soak()) {
      fmt::print("all {} calls\n", calls.size());
      return calls;
    }
    std::erase_if(calls, [](const Call& call) { return !call.changes_disk(); });
    std::vector<Call> some;
    for (size_t at = 0; at < most; ++at) some.push_back(calls[at * calls.size() / most]);
    fmt::print("{} of {} calls, {} of which change the disk\n", most, calls_of_a_save(rank).size(),
               calls.size());
    return some;
  }

  static void expect_the_unbroken_run(const std::string& name) {
    const std::vector<Json> steps = read_metrics(run(name)), whole = read_metrics(run("whole"));
    ASSERT_EQ(steps.size(), whole.size());
    for (size_t at = 0; at < steps.size(); ++at)
      for (const char* key : {"step", "loss", "grad_norm"}) EXPECT_EQ(steps[at][key], whole[at][key]);
    const std::string weights = "/weights/model.safetensors";
    EXPECT_EQ(read_text(run(name) + weights), read_text(run("whole") + weights));
  }

  // Killed at this call, the run goes on from what was acknowledged or a later one, saves again, leaves
  // nothing behind, and ends with the bits of the unbroken run.
  static void expect_survives_a_kill(int rank, const Call& call) {
    const Attacked killed =
        attack("killed", rank, fmt::format("-e inject={}:signal=KILL:when={}", call.name, call.number));
    EXPECT_TRUE(killed.fired);
    EXPECT_NE(killed.run.status, 0) << killed.run.err;
    const bool is_acknowledged = killed.run.err.find("step-00000002.g2: durable") != std::string::npos;
    const Outcome resumed = muster(arguments_ + run("killed") + " --resume");
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    const bool from_second = resumed.err.find("resumed from step-00000002.g2") != std::string::npos;
    EXPECT_TRUE(from_second || !is_acknowledged) << resumed.err;
    if (!from_second) {
      EXPECT_THAT(resumed.err, HasSubstr("resumed from step-00000001.g1"));
    }
    EXPECT_THAT(resumed.err, HasSubstr("step-00000003.g3: durable"));
    EXPECT_EQ(checkpoints("killed"), (std::vector<std::string>{"claims", "step-00000003.g3"}));
    expect_the_unbroken_run("killed");
  }

  // Where this call fails, the save is given up aloud or not harmed; the run goes on, and its next save
  // works. Returns whether the save was given up.
  static bool survives_an_error(int rank, const Call& call, const std::string& error) {
    const Attacked failed =
        attack("failed", rank, fmt::format("-e inject={}:error={}:when={}", call.name, error, call.number));
    EXPECT_TRUE(failed.fired);
    EXPECT_EQ(failed.run.status, 0) << failed.run.err;
    const bool given_up = failed.run.err.find("step-00000002.g2 was given up") != std::string::npos;
    EXPECT_NE(given_up, failed.run.err.find("step-00000002.g2: durable") != std::string::npos)
        << failed.run.err;
    EXPECT_THAT(failed.run.err, HasSubstr("step-00000003.g2: durable"));
    EXPECT_EQ(checkpoints("failed"), (std::vector<std::string>{"claims", "step-00000003.g2"}));
    EXPECT_EQ(muster("inspect " + run("failed/checkpoints/step-00000003.g2")).status, 0);
    expect_the_unbroken_run("failed");
    return given_up;
  }

  static void expect_survives_errors(int rank, size_t most) {
    const std::vector<std::string> errors = {"EIO", "ENOSPC", "EINTR"};
    size_t number = 0, given_up = 0;
    for (const Call& call : chosen(rank, most)) {
      for (size_t one = 0; one < (is_soak() ? errors.size() : 1); ++one) {
        const std::string& error = errors[number++ % errors.size()];
        SCOPED_TRACE(fmt::format("rank {}, {}, {}", rank, error, call.text()));
        const bool is_given_up = survives_an_error(rank, call, error);
        given_up += is_given_up;
        // A failed sync is never taken for one that worked, nor is a write that was not made.
        if (call.name == "fsync" || (call.name == "write" && error != "EINTR")) {
          EXPECT_TRUE(is_given_up);
        }
      }
    }
    EXPECT_GT(given_up, 0u);
  }

  static void expect_survives_kills(int rank, size_t most) {
    for (const Call& call : chosen(rank, most)) {
      SCOPED_TRACE(fmt::format("rank {}, killed at {}", rank, call.text()));
      expect_survives_a_kill(rank, call);
    }
  }

 private:
  static inline Folder* folder_ = nullptr;
  static inline std::string arguments_;
};

TEST_F(SaveKills, S25_KilledAtEverySystemCallOfRank0) {
  expect_survives_kills(0, 8);
}

TEST_F(SaveKills, S25_KilledAtEverySystemCallOfAnotherRank) {
  expect_survives_kills(2, 3);
}

TEST_F(SaveKills, S21_S22_S23_ErrorsOfEverySystemCallOfRank0) {
  expect_survives_errors(0, 9);
}

TEST_F(SaveKills, S21_S22_S23_ErrorsOfEverySystemCallOfAnotherRank) {
  expect_survives_errors(2, 3);
}

// A disk that fails every write, or every sync, of the rest of the run: no save is durable, training ends as
// if nothing had been, and the checkpoint from before stays.
TEST_F(SaveKills, S21_S22_ADiskThatFailsForGood) {
  for (const auto& [call, error] : {std::pair("write", "ENOSPC"), std::pair("fsync", "EIO")}) {
    SCOPED_TRACE(call);
    const Attacked failed = attack("failing", 2, fmt::format("-e inject={}:error={}", call, error));
    EXPECT_EQ(failed.run.status, 0) << failed.run.err;
    EXPECT_THAT(failed.run.err, Not(HasSubstr(": durable")));
    EXPECT_THAT(failed.run.err, HasSubstr("step-00000002.g2 was given up, and training goes on: rank 2:"));
    EXPECT_THAT(failed.run.err, HasSubstr("step-00000003.g2 was given up, and training goes on: rank 2:"));
    EXPECT_EQ(checkpoints("failing"), (std::vector<std::string>{"claims", "step-00000001.g1"}));
    expect_the_unbroken_run("failing");
  }
}

}  // namespace
}  // namespace muster::test
