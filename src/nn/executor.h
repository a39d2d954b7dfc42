// Runs the operators of one rank: allocates what they return, times and records what they do, and on `meta`
// leaves their arithmetic out. The same calls in the same order run, rehearse and verify.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

#include "base/clock.h"
#include "device/ledger.h"
#include "nn/wide.h"
#include "telemetry/step_record.h"

namespace muster::nn {

using device::Category;

// Of all elements of a tensor, read or written so many times.
inline int64_t bytes_of(const at::Tensor& x, int64_t times = 1) {
  return static_cast<int64_t>(x.nbytes()) * times;
}

// What an operator does, for the record: hardware FLOPs, bytes read and written.
struct Cost {
  double flops = 0;
  int64_t bytes = 0;
};

class Executor {
 public:
  Executor(at::Device device, at::ScalarType dtype, const Clock& clock)
      : device_(device), dtype_(dtype), clock_(&clock) {}

  at::Device device() const { return device_; }
  // The compute format: of activations and of parameters as layers read them.
  at::ScalarType dtype() const { return dtype_; }
  // Of what must not be rounded to bfloat16: means, rstd, logs of sums, the angles of positions.
  at::ScalarType statistics_dtype() const { return wide_type(dtype_); }
  bool is_meta() const { return device_.is_meta(); }

  // Uninitialised memory, booked under `category`.
  at::Tensor empty(at::IntArrayRef shape, Category category) const { return empty(shape, category, dtype_); }
  at::Tensor empty(at::IntArrayRef shape, Category category, at::ScalarType dtype) const;

  // Runs `kernel` unless on meta. What it allocates inside is scratch.
  template <class Kernel>
  void run(const char* op, Cost cost, Kernel&& kernel) {
    const double start = record_ ? clock_->seconds() : 0;
    if (!is_meta()) {
      const device::CategoryGuard scratch(Category::scratch);
      kernel();
    }
    if (record_) note(op, cost, start);
  }

  // Records into `record` until told otherwise; nullptr: not.
  void set_record(telemetry::StepRecord* record) { record_ = record; }
  telemetry::StepRecord* record() const { return record_; }
  // Where operators stand in the model and the step: "layer 3 attention", "backward".
  void set_place(std::string where) { where_ = std::move(where); }
  void set_phase(std::string phase) { phase_ = std::move(phase); }
  const Clock& clock() const { return *clock_; }

 private:
  void note(const char* op, Cost cost, double start);
  at::Device device_;
  at::ScalarType dtype_;
  const Clock* clock_;
  telemetry::StepRecord* record_ = nullptr;
  std::string where_, phase_;
};

}  // namespace muster::nn
