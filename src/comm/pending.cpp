#include "comm/pending.h"

#include <ATen/core/ivalue_inl.h>

#include "base/clock.h"
#include "base/error.h"

namespace muster::comm {

MessageLine::MessageLine(std::shared_ptr<MessageLog> log, const Group& group, const Call& call, bool timed)
    : log_(std::move(log)), record_(log_->record), timed_(timed) {
  if (!record_) return;
  index_ = record_->messages.size();
  telemetry::MessageEvent event;
  event.axis = group.axis;
  event.op = call.op;
  event.bytes = call.bytes;
  event.group_size = group.size();
  event.sequence = call.sequence;
  if (timed_) event.issued_seconds = event.done_seconds = Clock().seconds();
  record_->messages.push_back(std::move(event));
}

void MessageLine::watch(c10d::Work& work, bool point_to_point) {
  if (!record_ || !timed_ || point_to_point) return;
  const auto future = work.getFuture();
  if (!future) return;
  done_at_ = std::make_shared<std::atomic<double>>(0);
  future->addCallback([done_at = done_at_](c10::ivalue::Future&) { *done_at = Clock().seconds(); });
}

void MessageLine::waited(double seconds) {
  if (log_ && timed_) log_->waited_seconds += seconds;
  telemetry::MessageEvent* message = event();
  if (!message || !timed_) return;
  const double done_at = done_at_ ? done_at_->load() : 0;
  message->done_seconds = done_at > 0 ? done_at : Clock().seconds();
  message->waited_seconds = seconds;
}

// The recording may have ended before the wait.
telemetry::MessageEvent* MessageLine::event() const {
  if (!record_ || log_->record != record_ || index_ >= record_->messages.size()) return nullptr;
  return &record_->messages[index_];
}

Pending::Pending() = default;
Pending::Pending(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pending::~Pending() = default;
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;

void Pending::wait() {
  if (!state_ || state_->waited) return;
  state_->waited = true;
  const double begin = Clock().seconds();
  if (state_->work) {
    bool finished = false;
    try {
      // Those of the backend have the group's timeout already, but for sends and receives.
      finished =
          state_->call.point_to_point ? state_->work->wait(state_->group->timeout) : state_->work->wait();
    } catch (const std::exception& error) {
      throw_failure(*state_->group, state_->call, error);
    }
    if (!finished) throw_aborted(*state_->group, state_->call);
  }
  state_->line.waited(Clock().seconds() - begin);
  try {
    if (state_->finish) state_->finish();
  } catch (const std::exception& error) {
    throw_failure(*state_->group, state_->call, error);
  }
  state_->finish = nullptr;
  state_->work.reset();
  state_->lent.clear();
}

void Pending::keep(at::Tensor borrowed) {
  if (state_) state_->lent.push_back(std::move(borrowed));
}

Pending::State::~State() {
  if (waited || !work || lent.empty()) return;
  if (const auto future = work->getFuture())
    future->addCallback([kept = std::move(lent)](c10::ivalue::Future&) {});
  else
    work.reset();  // sends and receives are called off with it, before their memory goes
}

bool Pending::done() const {
  return !state_ || state_->waited || !state_->work || state_->work->isCompleted();
}

}  // namespace muster::comm
