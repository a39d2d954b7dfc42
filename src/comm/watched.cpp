#include "comm/watched.h"

#include <ATen/core/ivalue_inl.h>

#include <thread>

namespace muster::comm {
namespace {

using Future = c10::ivalue::Future;

class Watched final : public c10d::Work {
 public:
  Watched(c10::intrusive_ptr<c10d::Work> work, std::chrono::milliseconds timeout)
      : ended_(c10::make_intrusive<Future>(c10::NoneType::get())) {
    std::thread(watch, std::move(work), timeout, ended_).detach();
  }
  bool isCompleted() override { return ended_->completed(); }
  bool isSuccess() const override { return ended_->completed() && !ended_->hasError(); }
  c10::intrusive_ptr<Future> getFuture() override { return ended_; }
  // However long: the work inside has its own limit.
  bool wait(std::chrono::milliseconds) override {
    ended_->waitAndThrow();
    return true;
  }

 private:
  static void watch(c10::intrusive_ptr<c10d::Work> work, std::chrono::milliseconds timeout,
                    c10::intrusive_ptr<Future> ended) {
    try {
      const bool is_whole = work->wait(timeout);
      // What it holds goes before anyone is told.
      work.reset();
      TORCH_CHECK(is_whole, "was aborted");
      ended->markCompleted();
    } catch (...) {
      work.reset();
      ended->setError(std::current_exception());
    }
  }

  c10::intrusive_ptr<Future> ended_;
};

}  // namespace

c10::intrusive_ptr<c10d::Work> watched(c10::intrusive_ptr<c10d::Work> work,
                                       std::chrono::milliseconds timeout) {
  return c10::make_intrusive<Watched>(std::move(work), timeout);
}

}  // namespace muster::comm
