#include "telemetry/best_effort_file.h"

#include <unistd.h>

#include <exception>

namespace muster::telemetry {

void BestEffortFile::append(std::string_view record) {
  int64_t good = -1;
  try {
    if (!file_) file_ = File::append(path_);
    good = file_.size();
    if (good == 0) file_.write_all(head_);
    file_.write_all(record);
  } catch (const std::exception& error) {
    ++dropped_;
    take_back(good);
    say_once(error.what());
  }
}

void BestEffortFile::sync() {
  try {
    if (file_) file_.sync();
  } catch (const std::exception& error) {
    say_once(error.what());
  }
}

void BestEffortFile::take_back(int64_t size) noexcept {
  // Where even this fails the disk is gone, and there is nothing left to protect.
  if (size >= 0 && ::ftruncate(file_.fd(), size) != 0) return;
}

void BestEffortFile::say_once(const std::string& why) {
  if (said_) return;
  said_ = true;
  log_.warning("{}; training goes on, and what this file misses is counted", why);
}

}  // namespace muster::telemetry
