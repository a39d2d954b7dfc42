// Processes that a test starts, and system calls of one of their threads that strace makes fail.
#pragma once
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <sstream>
#include <thread>

#include "tests/program.h"

namespace muster::test {

// Looks every millisecond until `holds`; throws after 30 s.
inline void wait_until(const std::string& what, const std::function<bool()>& holds) {
  const auto start = std::chrono::steady_clock::now();
  while (!holds()) {
    if (std::chrono::steady_clock::now() - start > std::chrono::seconds(30))
      throw std::runtime_error("waited 30 s until " + what);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// A file of /proc, or nothing where it is gone.
inline std::string read_proc(const fs::path& path) {
  std::string text;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char part[4096];
  for (ssize_t got; (got = ::read(file, part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(got));
  ::close(file);
  return text;
}

// A shell command in the background; its output goes to files in `folder`.
class Process {
 public:
  Process(const std::string& command, const fs::path& folder) : out_(folder / "out"), err_(folder / "err") {
    const std::string line = "exec " + command + " >" + out_.string() + " 2>" + err_.string() + " </dev/null";
    id_ = ::fork();
    if (id_ == 0) {
      ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      ::_exit(127);
    }
  }
  ~Process() {
    if (!is_over_) ::kill(id_, SIGKILL);
    wait();
  }
  Process(const Process&) = delete;

  pid_t id() const { return id_; }
  // Exit status, or 128 + signal.
  int wait() {
    if (!std::exchange(is_over_, true)) ::waitpid(id_, &status_, 0);
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }
  Outcome outcome() {
    const int status = wait();
    return {status, read_text(out_), read_text(err_)};
  }

 private:
  fs::path out_, err_;
  pid_t id_;
  int status_ = 0;
  bool is_over_ = false;
};

// The child of `parent` that a SIGSTOP holds, or 0.
inline pid_t stopped_child(pid_t parent) {
  const std::string tasks = fmt::format("/proc/{}/task", parent);
  std::error_code gone;
  for (const fs::directory_entry& task : fs::directory_iterator(tasks, gone)) {
    std::istringstream children(read_proc(task.path() / "children"));
    for (pid_t child; children >> child;) {
      const std::string stat = read_proc(fmt::format("/proc/{}/stat", child));
      if (const size_t name_end = stat.rfind(')'); name_end != stat.npos && stat.substr(name_end, 3) == ") T")
        return child;
    }
  }
  return 0;
}

inline pid_t thread_named(pid_t process, const std::string& name) {
  for (const fs::directory_entry& task : fs::directory_iterator(fmt::format("/proc/{}/task", process)))
    if (read_proc(task.path() / "comm") == name + "\n") return std::stoi(task.path().filename().string());
  throw std::runtime_error(fmt::format("process {} has no thread {}", process, name));
}

inline bool is_traced(pid_t thread) {
  return read_proc(fmt::format("/proc/{}/status", thread)).find("TracerPid:\t0\n") == std::string::npos;
}

}  // namespace muster::test
