#include "base/log.h"

#include <unistd.h>

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

// A full disk or a closed terminal must not stop training: what cannot be written is dropped.
void put(int fd, const std::string& line) {
  if (fd >= 0 && ::write(fd, line.data(), line.size()) < 0) return;
}

}  // namespace

void Log::write(LogLevel level, const std::string& message) const {
  if (level < least_) return;
  std::string line = prefix_.empty() ? "" : "[" + prefix_ + "] ";
  line += label(level) + message + "\n";
  put(fd_, line);
  put(copy_fd_, line);
}

}  // namespace muster
