// What each rank is doing, in memory shared with its launcher: written at every phase with plain stores, read
// when someone asks why a rank stopped. One slot of 64 bytes a rank, in an anonymous file whose descriptor
// the workers inherit.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "launch/environment.h"

namespace muster::launch {

enum class Phase : int32_t {
  start = 0,
  connect,
  load,
  data,
  forward,
  backward,
  reduce,
  update,
  evaluate,
  save,
  finish
};
constexpr int kPhaseCount = 11;
const char* to_string(Phase phase);

// Where a rank was at a moment.
struct Progress {
  Phase phase = Phase::start;
  int64_t step = 0;  // of the update under way, from 1; 0 before the first
  int64_t micro_batch = 0;
  int64_t changed_ns = 0;  // CLOCK_MONOTONIC
};
// "at step 2 in backward"
std::string describe(const Progress& progress);

struct alignas(64) ProgressSlot {
  std::atomic<int64_t> step{0}, micro_batch{0}, changed_ns{0};
  std::atomic<Phase> phase{Phase::start};
};
static_assert(sizeof(ProgressSlot) == 64 && std::atomic<int64_t>::is_always_lock_free);

// The slots of all ranks of one launcher.
class ProgressPage {
 public:
  explicit ProgressPage(int64_t ranks);  // new, all at start
  ProgressPage(int fd, int64_t ranks);   // one that a launcher made; takes the descriptor
  ~ProgressPage();
  ProgressPage(ProgressPage&& other) noexcept;
  ProgressPage(const ProgressPage&) = delete;
  ProgressPage& operator=(const ProgressPage&) = delete;

  int fd() const { return fd_; }
  ProgressSlot& slot(int64_t rank) { return slots_[rank]; }
  Progress read(int64_t rank) const;

 private:
  void map();
  int fd_;
  int64_t ranks_;
  ProgressSlot* slots_ = nullptr;
};

// A worker's side. Without a launcher of ours it writes to nobody.
class Reporter {
 public:
  Reporter() = default;
  // From MUSTER_PROGRESS (the descriptor), LOCAL_RANK and LOCAL_WORLD_SIZE.
  static Reporter from(const Environment& environment);
  void at(Phase phase, int64_t step, int64_t micro_batch = 0);

 private:
  std::optional<ProgressPage> page_;
  int64_t rank_ = 0;
};

}  // namespace muster::launch
