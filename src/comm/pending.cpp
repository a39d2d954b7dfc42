#include "comm/pending.h"

#include <ATen/core/ivalue_inl.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/watched.h"

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
  event.issued_after = event.needed_after = record_->ops.size();
  if (timed_) event.issued_seconds = event.done_seconds = event.needed_seconds = Clock().seconds();
  record_->messages.push_back(std::move(event));
}

void MessageLine::watch(c10::intrusive_ptr<c10d::Work>& work, bool tells, std::chrono::milliseconds timeout) {
  if (!timed_ || !record_ || !work) return;
  auto future = tells ? work->getFuture() : nullptr;
  if (!future) {
    work = watched(std::move(work), timeout);
    future = work->getFuture();
  }
  done_at_ = std::make_shared<std::atomic<double>>(0);
  future->addCallback([done_at = done_at_](c10::ivalue::Future&) { *done_at = Clock().seconds(); });
}

void MessageLine::needed() {
  telemetry::MessageEvent* message = event();
  if (!message) return;
  message->needed_after = record_->ops.size();
  if (timed_) message->needed_seconds = Clock().seconds();
}

void MessageLine::waited(double seconds) {
  expose(seconds);
  telemetry::MessageEvent* message = event();
  if (!message || !timed_) return;
  const double done_at = done_at_ ? done_at_->load() : 0;
  message->done_seconds = done_at > 0 ? done_at : Clock().seconds();
}

void MessageLine::expose(double seconds) {
  if (!log_ || !timed_) return;
  log_->exposed_seconds += seconds;
  if (telemetry::MessageEvent* message = event()) message->exposed_seconds += seconds;
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
  state_->line.needed();
  const double begin = Clock().seconds();
  state_->wait_for_work();
  try {
    if (state_->finish) state_->finish();
  } catch (const std::exception& error) {
    throw_failure(*state_->group, state_->call, error);
  }
  state_->line.waited(Clock().seconds() - begin);
  state_->finish = nullptr;
  state_->send_part = nullptr;
  state_->work.reset();
  state_->lent.clear();
}

void Pending::ready(int64_t rank) {
  const double begin = Clock().seconds();
  try {
    state_->work = state_->send_part(rank);
  } catch (const std::exception& error) {
    throw_failure(*state_->group, state_->call, error);
  }
  state_->line.watch(state_->work, /*tells=*/false, state_->group->timeout);
  state_->line.expose(Clock().seconds() - begin);
}

void Pending::State::wait_for_work() {
  MUSTER_CHECK(work || !send_part, "{} is waited for before all of its parts are ready", call.op);
  if (!work) return;
  bool finished = false;
  try {
    // Those of the backend have the group's timeout already, but for sends and receives.
    finished = call.point_to_point ? work->wait(group->timeout) : work->wait();
  } catch (const std::exception& error) {
    throw_failure(*group, call, error);
  }
  if (!finished) throw_aborted(*group, call);
}

void Pending::keep(at::Tensor borrowed) {
  if (state_) state_->lent.push_back(std::move(borrowed));
}

Pending::State::~State() {
  if (waited) return;
  // Gloo's sends and receives are called off with their works, before their memory goes; through memory each
  // keeps its own.
  send_part = nullptr;
  const auto future = work && !call.point_to_point && !lent.empty() ? work->getFuture() : nullptr;
  if (future) future->addCallback([kept = std::move(lent)](c10::ivalue::Future&) {});
  work.reset();
}

bool Pending::done() const {
  return !state_ || state_->waited || !state_->work || state_->work->isCompleted();
}

}  // namespace muster::comm
