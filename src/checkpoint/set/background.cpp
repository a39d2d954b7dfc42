#include "checkpoint/set/background.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

namespace muster::checkpoint {

Background::Background(const char* name) : thread_([this, name] { run(name); }) {}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Background::start(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
  }
  changed_.notify_all();
}

bool Background::is_busy() const {
  const std::lock_guard lock(mutex_);
  return !works_.empty();
}

void Background::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return works_.empty(); });
}

void Background::run(const char* name) {
  ::pthread_setname_np(::pthread_self(), name);
  constexpr int kGivesWay = 10;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kGivesWay);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !works_.empty(); });
    if (works_.empty()) return;
    const std::function<void()>& work = works_.front();
    lock.unlock();
    work();
    lock.lock();
    works_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace muster::checkpoint
