// A file that takes whole records or nothing, and whose failures never reach the caller: what a full disk or
// a vanished folder refuses is dropped and counted, and said once.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/log.h"

namespace muster::telemetry {

class BestEffortFile {
 public:
  // Appends to `path`, which is made when the first record comes; an empty file gets `head` first.
  BestEffortFile(fs::path path, std::string head, Log log)
      : path_(std::move(path)), head_(std::move(head)), log_(std::move(log)) {}

  // A record that cannot be written whole is taken back, so that readers never meet half of one.
  void append(std::string_view record);
  void sync();
  int64_t dropped() const { return dropped_; }

 private:
  void take_back(int64_t size) noexcept;
  void say_once(const std::string& why);

  fs::path path_;
  std::string head_;
  Log log_;
  File file_;
  int64_t dropped_ = 0;
  bool said_ = false;
};

}  // namespace muster::telemetry
