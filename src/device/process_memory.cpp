#include "device/process_memory.h"

#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace muster::device {
namespace {

// A line of /proc/self/status, in KiB.
int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(key, 0) == 0) return std::stoll(line.substr(key.size())) * 1024;
  return 0;
}

}  // namespace

int64_t resident_bytes() {
  return status_bytes("VmRSS:");
}
int64_t peak_resident_bytes() {
  return status_bytes("VmHWM:");
}

double seconds_since_process_start() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));  // from field 3 on; the start time is field 22
  std::string field;
  for (int number = 3; number <= 22; ++number) fields >> field;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double started = std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - started;
}

}  // namespace muster::device
