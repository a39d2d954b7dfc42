// Real processes: this program runs itself as the launcher ("--launcher MODE RANKS"), and that runs it as the
// workers ("--worker MODE"). All of them share one pipe as stdout and stderr: its end proves that none is
// left.
#include "launch/local_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/error.h"
#include "launch/fault.h"
#include "launch/progress.h"

namespace muster::launch {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

void say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(1, line.data(), line.size()) < 0) ::_exit(99);
}

[[noreturn]] void sleep_for_ever() {
  for (;;) ::pause();
}

// A loop of all-reduces as a trainer has it, with a timeout that no test would survive.
int train(const comm::World& world) {
  Reporter reporter = Reporter::from(process_environment());
  Fault fault = Fault::from(process_environment(), world.rank);
  const spec::Mesh mesh({world.size, 1, 1, 1, 1},
                        {spec::Axis::data, spec::Axis::tensor, spec::Axis::context, spec::Axis::pipeline});
  comm::GroupOptions options;
  options.collective_timeout = 600s;
  comm::Groups groups = comm::connect(mesh, world, "cpu", 10s, options);
  at::Tensor sum = at::ones({1000});
  for (int64_t step = 1; step <= 3; ++step) {
    reporter.at(Phase::backward, step);
    fault.at(Phase::backward, step);
    try {
      groups.on(spec::Axis::data).all_reduce(sum).wait();
    } catch (const std::exception& error) {
      say(error.what());
      leave(exit_status(error));
    }
  }
  if (world.rank == 0) say(fmt::format("sum {}", sum[0].item<float>()));
  groups.on(spec::Axis::data).barrier();
  return 0;
}

// Rank 3 fails while rank 1 is deaf to SIGTERM and the others sleep.
int deaf(const comm::World& world) {
  if (world.rank == 1) ::signal(SIGTERM, SIG_IGN);
  if (world.rank != 3) sleep_for_ever();
  std::this_thread::sleep_for(200ms);
  return 17;
}

int all_deaf(const comm::World&) {
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  say("deaf");
  sleep_for_ever();
}

int polite(const comm::World&) {
  ::signal(SIGTERM, [](int) { ::_exit(0); });
  say("ready");
  sleep_for_ever();
}

int early(const comm::World& world) {
  if (world.rank == 0) return 0;
  sleep_for_ever();
}

// Rank 0 only lost its peers, and says so before rank 1's own failure shows.
int consequence_first(const comm::World& world) {
  if (world.rank == 0) return kExitConsequence;
  std::this_thread::sleep_for(150ms);
  return 9;
}

int crash(const comm::World& world) {
  if (world.rank == 1) ::raise(SIGSEGV);
  sleep_for_ever();
}

// Leaves a child of its own behind.
int parent(const comm::World&) {
  if (::fork() == 0) sleep_for_ever();
  return 0;
}

struct Mode {
  const char* name;
  int (*body)(const comm::World&);
};
constexpr Mode kModes[] = {{"train", train},   {"deaf", deaf},    {"all_deaf", all_deaf},
                           {"polite", polite}, {"early", early},  {"consequence_first", consequence_first},
                           {"crash", crash},   {"parent", parent}};

int be_worker(const std::string& mode) {
  const comm::World world = world_from(process_environment()).value();
  for (const Mode& known : kModes)
    if (mode == known.name) return known.body(world);
  return 98;
}

int be_launcher(const std::string& mode, int64_t ranks) {
  LocalRanksOptions options;
  options.threads = 1;
  options.grace = 500ms;
  options.finish_grace = mode == "early" ? 500ms : 20000ms;  // a busy machine ends ranks seconds apart
  return run_local_ranks(ranks, {"test", "--worker", mode}, Log("launcher"), options);
}

// A launcher under way.
class Launched {
 public:
  Launched(const std::string& mode, int ranks, const char* fault = nullptr) : begin_(Clock::now()) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[1], 1);
      ::dup2(ends[1], 2);
      ::close(ends[0]);
      ::close(ends[1]);
      if (fault) ::setenv("MUSTER_FAULT", fault, 1);
      ::execl("/proc/self/exe", "test", "--launcher", mode.c_str(), std::to_string(ranks).c_str(), nullptr);
      ::_exit(97);
    }
    ::close(ends[1]);
    output_ = ends[0];
  }
  ~Launched() { ::close(output_); }

  void signal(int number) const { ::kill(process_, number); }
  // Reads until `word` was said so many times.
  void await(const std::string& word, int times) {
    size_t from = 0;
    while (times > 0 && read_more())
      for (size_t at; times > 0 && (at = text.find(word, from)) != std::string::npos; --times)
        from = at + word.size();
    EXPECT_EQ(times, 0) << text;
  }
  // Until every process that could write is gone.
  void finish() {
    while (read_more()) {
    }
    seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    ::waitpid(process_, &status, 0);
    status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string text;
  int status = 0;
  double seconds = 0;

 private:
  bool read_more() {
    char buffer[4096];
    const ssize_t got = ::read(output_, buffer, sizeof(buffer));
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
    return got > 0;
  }
  Clock::time_point begin_;
  pid_t process_ = -1;
  int output_ = -1;
};

// The launcher's own lines.
std::vector<std::string> launcher_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with("[launcher]")) lines.push_back(line);
  return lines;
}

TEST(LocalRanks, train_together_and_leave_nothing) {
  Launched job("train", 4);
  job.finish();
  EXPECT_EQ(job.status, 0) << job.text;
  EXPECT_THAT(job.text, HasSubstr("sum 64"));
}

TEST(B034, a_rank_that_exits_is_named_first_while_others_wait_in_an_all_reduce) {
  Launched job("train", 4, "rank=3,step=2,phase=backward,action=exit:17");
  job.finish();
  EXPECT_EQ(job.status, 17) << job.text;
  EXPECT_LT(job.seconds, 10) << job.text;
  const std::vector<std::string> lines = launcher_lines(job.text);
  ASSERT_EQ(lines.size(), 2u) << job.text;
  EXPECT_THAT(lines[0], HasSubstr("rank 3 exited with 17 at step 2 in backward; stopping all 4 ranks"));
  EXPECT_THAT(lines[1], HasSubstr("rank 0 lost its peers"));
  EXPECT_THAT(lines[1], HasSubstr("rank 2 lost its peers"));
  EXPECT_THAT(job.text, HasSubstr("data axis (ranks 0-3), operation 1: all_reduce sum Float [1000] at"));
  EXPECT_THAT(job.text, HasSubstr("lost a peer"));
}

TEST(B034, a_rank_that_is_killed_is_named_first) {
  Launched job("train", 4, "rank=3,step=2,phase=backward,action=kill");
  job.finish();
  EXPECT_EQ(job.status, 1) << job.text;
  EXPECT_THAT(launcher_lines(job.text).at(0),
              HasSubstr("rank 3 was killed by SIGKILL at step 2 in backward"));
}

TEST(B034, a_child_deaf_to_sigterm_is_killed_after_the_grace) {
  Launched job("deaf", 4);
  job.finish();
  EXPECT_EQ(job.status, 17);
  EXPECT_LT(job.seconds, 5);
  const std::vector<std::string> lines = launcher_lines(job.text);
  EXPECT_THAT(lines.at(0), HasSubstr("rank 3 exited with 17"));
  EXPECT_THAT(lines.at(1), HasSubstr("rank 0 was killed by SIGTERM, rank 1 was killed by SIGKILL"));
}

TEST(B034, a_launcher_that_is_killed_takes_its_workers_along) {
  Launched job("all_deaf", 4);
  job.await("deaf", 4);
  const auto killed = Clock::now();
  job.signal(SIGKILL);
  job.finish();
  EXPECT_EQ(job.status, -SIGKILL);
  EXPECT_LT(Clock::now() - killed, 2s);
}

TEST(LocalRanks, name_the_cause_and_not_the_first_consequence) {
  Launched job("consequence_first", 2);
  job.finish();
  EXPECT_EQ(job.status, 9);
  EXPECT_THAT(launcher_lines(job.text).at(0), HasSubstr("rank 1 exited with 9 before step 1 in start"));
}

TEST(LocalRanks, tell_a_crash_by_its_signal) {
  Launched job("crash", 2);
  job.finish();
  EXPECT_EQ(job.status, 1);
  EXPECT_THAT(launcher_lines(job.text).at(0), HasSubstr("rank 1 was killed by SIGSEGV"));
}

TEST(LocalRanks, count_an_early_end_as_a_failure) {
  Launched job("early", 3);
  job.finish();
  EXPECT_EQ(job.status, 1);
  EXPECT_THAT(launcher_lines(job.text).at(0), HasSubstr("rank 0 exited with 0"));
}

TEST(LocalRanks, leave_no_grandchildren) {
  Launched job("parent", 2);
  job.finish();
  EXPECT_EQ(job.status, 0);
  EXPECT_LT(job.seconds, 5);
}

TEST(LocalRanks, pass_a_signal_on_and_kill_at_the_second) {
  Launched gentle("polite", 2);
  gentle.await("ready", 2);
  gentle.signal(SIGTERM);
  gentle.finish();
  EXPECT_EQ(gentle.status, 128 + SIGTERM) << gentle.text;

  Launched rough("all_deaf", 2);
  rough.await("deaf", 2);
  rough.signal(SIGINT);
  std::this_thread::sleep_for(200ms);
  rough.signal(SIGINT);
  rough.finish();
  EXPECT_EQ(rough.status, 128 + SIGINT) << rough.text;
  EXPECT_LT(rough.seconds, 5);
}

TEST(B036, two_jobs_at_once_do_not_meet) {
  Launched one("train", 2), other("train", 3);
  one.finish();
  other.finish();
  EXPECT_EQ(one.status, 0) << one.text;
  EXPECT_EQ(other.status, 0) << other.text;
  EXPECT_THAT(one.text, HasSubstr("sum 8"));
  EXPECT_THAT(other.text, HasSubstr("sum 27"));
}

TEST(B036, one_job_restarts_five_times_in_a_row) {
  for (int time = 0; time < 5; ++time) {
    Launched job("train", 2, time < 4 ? "rank=1,step=2,action=kill" : nullptr);
    job.finish();
    EXPECT_EQ(job.status, time < 4 ? 1 : 0) << job.text;
  }
}

}  // namespace
}  // namespace muster::launch

int main(int argc, char** argv) {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "--worker") muster::launch::leave(muster::launch::be_worker(argv[2]));
  if (role == "--launcher") return muster::launch::be_launcher(argv[2], std::stol(argv[3]));
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
