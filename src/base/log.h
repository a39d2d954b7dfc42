// Log lines for people, on stderr. stdout belongs to what a verb was asked for.
#pragma once
#include <fmt/format.h>

#include <string>

namespace muster {

enum class LogLevel { debug, info, warning, error };

// Writes "[rank 5 pp1 tp1 step 812] message" lines. A Log is passed along in a rank's context, never global.
class Log {
 public:
  explicit Log(std::string prefix = "", LogLevel least = LogLevel::info, int fd = 2)
      : prefix_(std::move(prefix)), least_(least), fd_(fd) {}

  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  const std::string& prefix() const { return prefix_; }
  // Also appends every line to this file (a run's log.txt).
  void also_to(int fd) { copy_fd_ = fd; }

  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    write(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
  }
  // One whole line in one write(2), so that lines of several processes do not mix. Never waits: a line that
  // its file, terminal or pipe does not take at once is dropped, and the next one that is taken says how
  // many.
  void write(LogLevel level, const std::string& message) const;

 private:
  std::string prefix_;
  LogLevel least_;
  int fd_;
  int copy_fd_ = -1;
};

}  // namespace muster
