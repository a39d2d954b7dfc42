// Time as a thing that is passed in, so that tests can own it.
#pragma once
#include <chrono>

namespace muster {

// Seconds on a clock that only goes forward.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

// A clock that a test sets by hand.
class FakeClock : public Clock {
 public:
  double seconds() const override { return now_; }
  void advance(double seconds) { now_ += seconds; }

 private:
  double now_ = 0;
};

}  // namespace muster
