// One line on a terminal that says how far a long reading is: "[#####     ]  2.2 of 4.4 MB, 31 MB/s, 0.1 s
// left".
#pragma once
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/units.h"

namespace muster::cli {

// On stderr, where it is a terminal; else silent.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what) : what_(std::move(what)) {}
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;

  void show(int64_t done_bytes, int64_t of_bytes) {
    if (!is_terminal_) return;
    shown_ = true;
    std::fprintf(stderr, "\r\033[K%s", line(done_bytes, of_bytes, clock_.seconds() - started_).c_str());
  }
  void clear() {
    if (std::exchange(shown_, false)) std::fputs("\r\033[K", stderr);
  }

  std::string line(int64_t done_bytes, int64_t of_bytes, double seconds) const {
    constexpr int64_t kCells = 30;
    const double done = static_cast<double>(done_bytes), all = std::max(static_cast<double>(of_bytes), 1.0);
    const auto cells = static_cast<size_t>(std::min<double>(done / all, 1) * kCells);
    const double rate = done / std::max(seconds, 1e-9);
    return fmt::format("{} [{:<{}}] {:.1f} of {:.1f} MB, {:.1f} MB/s, {} left", what_,
                       std::string(cells, '#'), kCells, done / 1e6, all / 1e6, rate / 1e6,
                       format_seconds((all - done) / std::max(rate, 1.0)));
  }

 private:
  std::string what_;
  Clock clock_;
  double started_ = clock_.seconds();
  bool is_terminal_ = ::isatty(2) == 1;
  bool shown_ = false;
};

}  // namespace muster::cli
