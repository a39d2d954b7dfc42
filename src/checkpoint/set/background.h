// A thread beside training that does what it is given, one thing after the other: it writes checkpoints.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace muster::checkpoint {

class Background {
 public:
  // Made at once, so that a tool that looks at this process finds it by `name` (15 characters at most). It
  // gives way to the threads that compute.
  explicit Background(const char* name);
  // Waits for the end of all that it was given.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // `work` must not throw. What it wrote may be read once nothing is left to do.
  void start(std::function<void()> work);
  bool is_busy() const;
  void wait() const;

 private:
  void run(const char* name);
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::function<void()>> works_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace muster::checkpoint
