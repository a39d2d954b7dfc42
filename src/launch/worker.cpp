#include "launch/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace muster::launch {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (const std::string& text : texts) list.push_back(const_cast<char*>(text.c_str()));
  list.push_back(nullptr);
  return list;
}

// In the child, between fork and exec: nothing here may allocate or lock.
[[noreturn]] void become_worker(pid_t parent, char* const* arguments, char* const* variables,
                                const std::vector<int>& descriptors) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // A launcher that a script started in the background has these ignored; what it passes on must arrive.
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing > 0) ::dup2(nothing, 0);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  for (int fd : descriptors) ::fcntl(fd, F_SETFD, 0);
  ::execve("/proc/self/exe", arguments, variables);
  ::_exit(127);
}

}  // namespace

std::string describe(const Ending& ending) {
  if (ending.signal == 0) return fmt::format("exited with {}", ending.status);
  const char* name = sigabbrev_np(ending.signal);
  return fmt::format("was killed by SIG{}", name ? name : std::to_string(ending.signal));
}

Worker::Worker(int64_t rank, const std::vector<std::string>& arguments,
               const std::vector<std::string>& variables, const std::vector<int>& descriptors)
    : rank_(rank) {
  const std::vector<char*> argv = pointers(arguments), envp = pointers(variables);
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ == 0) become_worker(parent, argv.data(), envp.data(), descriptors);
  if (process_ < 0)
    throw WorldError(WorldError::Kind::device,
                     fmt::format("cannot start rank {}: {}", rank, strerror(errno)));
  ::setpgid(process_, process_);  // whichever of the two comes first
}

Worker::Worker(Worker&& other) noexcept
    : rank_(other.rank_), process_(std::exchange(other.process_, -1)), ending_(std::move(other.ending_)) {}

Worker::~Worker() {
  if (process_ < 0 || ending_) return;
  signal(SIGKILL);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Worker::look(const ProgressPage& page) {
  siginfo_t info{};
  if (ending_ || ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0)
    return;
  // Its number still names its group until it is reaped.
  signal(SIGKILL);
  ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED);
  Ending ending;
  (info.si_code == CLD_EXITED ? ending.status : ending.signal) = info.si_status;
  ending.progress = page.read(rank_);
  ending_ = ending;
}

void Worker::signal(int number) const {
  ::kill(-process_, number);
}

}  // namespace muster::launch
