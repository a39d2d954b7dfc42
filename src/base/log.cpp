#include "base/log.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <string_view>

namespace muster {
namespace {

const char* label(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug: ";
    case LogLevel::warning:
      return "warning: ";
    case LogLevel::error:
      return "error: ";
    case LogLevel::info:
      break;
  }
  return "";
}

// A pipe that has room takes PIPE_BUF bytes without waiting for its reader.
bool has_room(int fd) {
  pollfd state{fd, POLLOUT, 0};
  return ::poll(&state, 1, 0) == 1 && (state.revents & POLLOUT) != 0;
}

// A full disk, a closed terminal, a pipe whose reader stands still must not stop training: what cannot be
// written is dropped. Whether all of it was written.
bool put(int fd, std::string_view line) {
  if (fd < 0) return true;
  while (!line.empty()) {
    if (!has_room(fd)) return false;
    const ssize_t put = ::write(fd, line.data(), std::min<size_t>(line.size(), PIPE_BUF));
    if (put <= 0) return false;
    line.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

// By this process; told as soon as something can be.
std::atomic<int64_t> dropped = 0;

void put_or_count(int fd, const std::string& line) {
  const int64_t before = dropped.exchange(0);
  const std::string told =
      before > 0 ? fmt::format("warning: {} log lines were dropped here: nobody took them\n", before) : "";
  if (!put(fd, told + line)) dropped += before + 1;
}

}  // namespace

void Log::write(LogLevel level, const std::string& message) const {
  if (level < least_) return;
  std::string line = prefix_.empty() ? "" : "[" + prefix_ + "] ";
  line += label(level) + message + "\n";
  put_or_count(fd_, line);
  put(copy_fd_, line);
}

}  // namespace muster
