// The memory ledger: every byte of every tensor, by category. Two allocators of ours stand in for torch's,
// one for `cpu` and one for `meta`; each books into a ledger of its own, so that a rehearsal and a run count
// alike. Allocators belong to the process, therefore so do the ledgers.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "telemetry/step_record.h"

namespace muster::device {

using telemetry::Category;

class Ledger {
 public:
  int64_t live(Category category) const;
  // Sum over the categories on the device.
  int64_t live() const;
  // The largest live() since the last reset, and the largest live scratch.
  int64_t peak() const;
  int64_t scratch_peak() const;
  void reset_peak();

  // Appends every change to `events` until stop_recording; `events` must outlive that.
  void start_recording(std::vector<telemetry::MemoryEvent>* events);
  void stop_recording();

  void book(int64_t bytes, Category category);  // bytes < 0: freed
  void move(int64_t bytes, Category from, Category to);

 private:
  void apply(int64_t bytes, Category category);
  mutable std::mutex mutex_;
  std::array<int64_t, telemetry::kCategoryCount> live_{};
  int64_t total_ = 0, peak_ = 0, scratch_peak_ = 0;
  std::vector<telemetry::MemoryEvent>* events_ = nullptr;
};

// Replaces torch's allocators for `cpu` and `meta`. Call before the first tensor exists; more calls do
// nothing.
void install_ledgers();
// The ledger of a device's allocator: cpu or meta.
Ledger& ledger(at::DeviceType type);

// What this thread's allocations are for, until the guard's end.
class CategoryGuard {
 public:
  explicit CategoryGuard(Category category);
  ~CategoryGuard();
  CategoryGuard(const CategoryGuard&) = delete;
  CategoryGuard& operator=(const CategoryGuard&) = delete;

 private:
  std::optional<Category> before_;
  Category process_before_;
};
Category current_category();

// Books a tensor's storage under another category. Storage that did not come from our allocators is left
// alone.
void retag(const at::Tensor& tensor, Category category);

}  // namespace muster::device
