#include "launch/local_ranks.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <thread>

#include "base/error.h"
#include "launch/worker.h"

extern char** environ;

namespace muster::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kTick{50};

// SIGINT, SIGTERM and SIGCHLD as readable events instead of interruptions, until its end.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (int number : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&set, number);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() {
    close(fd_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  // Waits a tick at most; how often the user asked to stop, and with which signal.
  std::vector<int> wait() {
    pollfd ready{fd_, POLLIN, 0};
    poll(&ready, 1, static_cast<int>(kTick.count()));
    std::vector<int> stops;
    signalfd_siginfo info{};
    while (read(fd_, &info, sizeof(info)) == sizeof(info))
      if (info.ssi_signo != SIGCHLD) stops.push_back(static_cast<int>(info.ssi_signo));
    return stops;
  }

 private:
  sigset_t before_{};
  int fd_ = -1;
};

// The file in which the ranks meet.
class StoreFile {
 public:
  StoreFile() : fd_(memfd_create("muster-store", MFD_CLOEXEC)) {
    if (fd_ < 0)
      throw WorldError(WorldError::Kind::device,
                       std::string("cannot make the ranks' store: ") + strerror(errno));
  }
  ~StoreFile() { close(fd_); }
  StoreFile(const StoreFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// This process's variables but for those that say how it was started itself.
std::vector<std::string> inherited_variables() {
  static const std::set<std::string> kOurs = {
      "RANK",        "WORLD_SIZE",   "LOCAL_RANK",      "LOCAL_WORLD_SIZE", "MASTER_ADDR",
      "MASTER_PORT", "MUSTER_STORE", "MUSTER_PROGRESS", "OMP_NUM_THREADS",  "OMP_WAIT_POLICY"};
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable) {
    const std::string text = *variable;
    if (!kOurs.contains(text.substr(0, text.find('=')))) variables.push_back(text);
  }
  return variables;
}

int threads_each(int64_t ranks, int threads) {
  if (threads > 0) return threads;
  const int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  return static_cast<int>(std::max<int64_t>(1, cores / ranks));
}

class LocalRanks {
 public:
  LocalRanks(int64_t ranks, const Log& log, const LocalRanksOptions& options)
      : log_(log), options_(options), page_(ranks) {}

  void start(int64_t ranks, const std::vector<std::string>& arguments);
  int watch();

 private:
  enum class Stage { running, last_call, terminating, killing };

  void look();
  void stop_asked(int number);
  void advance();
  void advance_running();
  void decide_first_cause();
  void name_the_silent();
  void enter(Stage stage, milliseconds lasts);
  void signal_living(int number);
  bool all_ended() const;
  int finish();
  std::string consequences() const;

  const Log& log_;
  LocalRanksOptions options_;
  StoreFile store_;
  ProgressPage page_;
  Signals signals_;
  std::vector<Worker> workers_;
  std::vector<const Worker*> ended_;  // in the order in which they were seen to end
  const Worker* first_cause_ = nullptr;
  Stage stage_ = Stage::running;
  steady_clock::time_point deadline_ = steady_clock::time_point::max();
  int stopped_by_ = 0;
};

void LocalRanks::start(int64_t ranks, const std::vector<std::string>& arguments) {
  const std::vector<std::string> inherited = inherited_variables();
  workers_.reserve(static_cast<size_t>(ranks));  // ended_ points into it
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> variables = inherited;
    for (const char* name : {"RANK", "LOCAL_RANK"}) variables.push_back(fmt::format("{}={}", name, rank));
    for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"})
      variables.push_back(fmt::format("{}={}", name, ranks));
    variables.push_back(fmt::format("MUSTER_STORE=/proc/self/fd/{}", store_.fd()));
    variables.push_back(fmt::format("MUSTER_PROGRESS={}", page_.fd()));
    variables.push_back(fmt::format("OMP_NUM_THREADS={}", threads_each(ranks, options_.threads)));
    // Threads that spin while they wait starve the other ranks' (LibTorch's libgomp reads this as it loads).
    variables.push_back("OMP_WAIT_POLICY=passive");
    workers_.emplace_back(rank, arguments, variables, std::vector{store_.fd(), page_.fd()});
  }
}

int LocalRanks::watch() {
  while (!all_ended()) {
    for (int number : signals_.wait()) stop_asked(number);
    look();
    advance();
  }
  if (stage_ == Stage::last_call) decide_first_cause();
  return finish();
}

void LocalRanks::look() {
  for (Worker& worker : workers_) {
    if (worker.ending()) continue;
    worker.look(page_);
    if (worker.ending()) ended_.push_back(&worker);
  }
}

void LocalRanks::stop_asked(int number) {
  if (stopped_by_ != 0) return enter(Stage::killing, {});
  stopped_by_ = number;
  log_.info("SIG{}: passed on to all ranks; once more kills them", sigabbrev_np(number));
  signal_living(number);
}

void LocalRanks::advance() {
  if (stage_ == Stage::running) advance_running();
  if (steady_clock::now() < deadline_) return;
  if (stage_ == Stage::last_call) {
    decide_first_cause();
    enter(Stage::terminating, options_.grace);
  } else if (stage_ == Stage::running) {
    first_cause_ = ended_.front();
    log_.error("rank {} {} {} while others went on for {} ms", first_cause_->rank(),
               describe(*first_cause_->ending()), describe(first_cause_->ending()->progress),
               options_.finish_grace.count());
    enter(Stage::terminating, options_.grace);
  } else if (stage_ == Stage::terminating) {
    enter(Stage::killing, {});
  }
}

void LocalRanks::advance_running() {
  if (ended_.empty()) return;
  const bool failed = std::any_of(ended_.begin(), ended_.end(), [](auto* w) { return !w->ending()->well(); });
  if (failed && stopped_by_ == 0)
    enter(Stage::last_call, options_.last_call);
  else if (deadline_ == steady_clock::time_point::max())
    deadline_ = steady_clock::now() + options_.finish_grace;
}

// Where all who ended only lost a peer, the one that they waited for lives on: the rank whose last sign is
// oldest.
void LocalRanks::name_the_silent() {
  const Worker* silent = nullptr;
  int64_t since_ns = 0;
  for (const Worker& worker : workers_) {
    const int64_t changed_ns = page_.read(worker.rank()).changed_ns;
    if (worker.ending() || (silent && changed_ns >= since_ns)) continue;
    silent = &worker;
    since_ns = changed_ns;
  }
  if (!silent) return;
  const auto now = steady_clock::now().time_since_epoch();
  const double seconds = std::chrono::duration<double>(now - std::chrono::nanoseconds(since_ns)).count();
  log_.error("rank {} has given no sign for {:.1f} s {} while others waited for it", silent->rank(), seconds,
             describe(page_.read(silent->rank())));
}

// The first to end that did not merely lose its peers.
void LocalRanks::decide_first_cause() {
  const auto is_cause = [](const Worker* worker) {
    return !worker->ending()->well() && worker->ending()->status != kExitConsequence;
  };
  const auto failed = [](const Worker* worker) { return !worker->ending()->well(); };
  auto found = std::find_if(ended_.begin(), ended_.end(), is_cause);
  if (found == ended_.end()) {
    name_the_silent();
    found = std::find_if(ended_.begin(), ended_.end(), failed);
  }
  first_cause_ = *found;
  const Ending& ending = *first_cause_->ending();
  log_.error("rank {} {} {}{}; stopping all {} ranks", first_cause_->rank(), describe(ending),
             describe(ending.progress), ending.signal == SIGKILL ? " (for lack of memory, or by hand)" : "",
             workers_.size());
}

void LocalRanks::enter(Stage stage, milliseconds lasts) {
  stage_ = stage;
  deadline_ = stage == Stage::killing ? steady_clock::time_point::max() : steady_clock::now() + lasts;
  if (stage == Stage::terminating) signal_living(SIGTERM);
  if (stage == Stage::killing) signal_living(SIGKILL);
}

void LocalRanks::signal_living(int number) {
  for (const Worker& worker : workers_)
    if (!worker.ending()) worker.signal(number);
}

bool LocalRanks::all_ended() const {
  return ended_.size() == workers_.size();
}

std::string LocalRanks::consequences() const {
  std::string text;
  for (const Worker& worker : workers_) {
    if (&worker == first_cause_ || worker.ending()->well()) continue;
    const bool lost_peer = worker.ending()->status == kExitConsequence;
    text += fmt::format("{}rank {} {}", text.empty() ? "" : ", ", worker.rank(),
                        lost_peer ? "lost its peers" : describe(*worker.ending()));
  }
  return text;
}

int LocalRanks::finish() {
  if (first_cause_) {
    if (const std::string others = consequences(); !others.empty()) log_.info("then {}", others);
    const int status = first_cause_->ending()->status;
    return status == 0 ? 1 : status;
  }
  if (stopped_by_ != 0) log_.info("stopped by SIG{}", sigabbrev_np(stopped_by_));
  return stopped_by_ != 0 ? 128 + stopped_by_ : 0;
}

}  // namespace

int exit_status(const std::exception& error) {
  if (dynamic_cast<const UserError*>(&error)) return 2;
  if (dynamic_cast<const Bug*>(&error)) return 70;
  const auto* world = dynamic_cast<const WorldError*>(&error);
  if (world && world->kind() == WorldError::Kind::fenced) return kExitFenced;
  return world && world->is_consequence() ? kExitConsequence : 1;
}

void leave(int status) {
  std::fflush(nullptr);
  ::_exit(status);
}

int run_local_ranks(int64_t ranks, const std::vector<std::string>& arguments, const Log& log,
                    const LocalRanksOptions& options) {
  MUSTER_CHECK(ranks >= 1 && !arguments.empty(), "{} ranks, {} arguments", ranks, arguments.size());
  LocalRanks all(ranks, log, options);
  all.start(ranks, arguments);
  return all.watch();
}

}  // namespace muster::launch
