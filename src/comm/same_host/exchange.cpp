#include "comm/same_host/exchange.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <stdexcept>

namespace muster::comm {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

// What moves in less time than it takes to wake a thread.
constexpr int64_t kFewBytes = int64_t{128} << 10;
// Between two looks at whether the others are still there.
constexpr auto kLook = 10ms;
// For the last letters of an exchange to leave.
constexpr auto kLastLetters = 1s;
// Between two looks of the thread after small messages that nobody waits for, and letters without room.
constexpr auto kTick = 2ms;

bool is_worth_a_thread(const Transfer& transfer) {
  return transfer.bytes_to_move() > kFewBytes;
}

// How a wait goes on while nothing comes: looks again, gives way to others, and then would rather sleep.
class Patience {
 public:
  explicit Patience(bool has_a_core) : looks_(has_a_core ? kLooks : 0), yields_(has_a_core ? kYields : 0) {}
  bool looks_again() {
    if (tries_ >= looks_ + yields_) return false;
    if (tries_++ < looks_)
      __builtin_ia32_pause();
    else
      ::sched_yield();
    return true;
  }
  void begin() { tries_ = 0; }

 private:
  static constexpr int kLooks = 200, kYields = 200;
  int looks_, yields_, tries_ = 0;
};

// By the clock: signals, or a bell that rings for other messages, end each sleep early.
class Looks {
 public:
  bool is_due() {
    const auto now = SteadyClock::now();
    if (now < next_) return false;
    next_ = now + kLook;
    return true;
  }

 private:
  SteadyClock::time_point next_ = SteadyClock::now() + kLook;
};

std::exception_ptr error_of(const std::string& text) {
  return std::make_exception_ptr(std::runtime_error(text));
}

}  // namespace

Exchange::Exchange(Desk desk, bool has_a_core)
    : desk_(std::move(desk)), has_a_core_(has_a_core), thread_([this] { run(); }) {}

Exchange::~Exchange() {
  stop();
}

void Exchange::stop() {
  if (!thread_.joinable()) return;
  ends_ = true;
  wake();
  thread_.join();
  const std::lock_guard lock(drives_);
  begin_new();
  for (const auto end = SteadyClock::now() + kLastLetters; desk_.owes() && SteadyClock::now() < end;) {
    std::this_thread::sleep_for(1ms);
    desk_.sort();
  }
  desk_.own().leave();  // before memory that others may read goes
  for (UnderWay& message : active_) message.transfer->finish(error_of("was aborted"));
  active_.clear();
  failed_.clear();
}

void Exchange::start(c10::intrusive_ptr<Transfer> transfer) {
  const bool is_carried = is_worth_a_thread(*transfer);
  ++under_way_;
  if (is_carried) ++carried_;
  {
    const std::lock_guard lock(new_mutex_);
    new_.emplace_back(std::move(transfer), is_carried);
  }
  ++started_;
  if (drives_.try_lock()) {
    const std::lock_guard lock(drives_, std::adopt_lock);
    begin_new();
    desk_.sort();
    look_at_debts();
  }
  if (is_carried || rests_) wake();
}

bool Exchange::try_pass() {
  if (!drives_.try_lock()) {
    ::sched_yield();
    return true;  // somebody else moves them
  }
  const std::lock_guard lock(drives_, std::adopt_lock);
  return pass();
}

bool Exchange::pass() {
  bool moved = desk_.sort();
  moved |= begin_new();
  for (auto& [transfer, is_carried] : active_) {
    try {
      moved |= transfer->advance(desk_);
    } catch (...) {
      transfer->finish(std::current_exception());
    }
  }
  end_over();
  if (moved) desk_.sort();  // what was told leaves
  look_at_debts();
  if (!moved) return false;
  if (waiters_ > 0) desk_.own().ring();
  return true;
}

// Letters that found no room leave at a tick of the thread, though nobody comes to drive.
void Exchange::look_at_debts() {
  owes_ = desk_.owes();
  if (owes_ && rests_) wake();
}

bool Exchange::begin_new() {
  std::vector<UnderWay> begun;
  {
    const std::lock_guard lock(new_mutex_);
    begun.swap(new_);
  }
  for (UnderWay& message : begun) {
    message.transfer->begin(desk_);
    active_.push_back(std::move(message));
  }
  return !begun.empty();
}

void Exchange::end_over() {
  std::erase_if(active_, [this](const UnderWay& message) {
    if (!message.transfer->is_over() && !message.transfer->isCompleted()) return false;
    if (message.is_carried) --carried_;
    --under_way_;
    message.transfer->finish(nullptr);
    if (message.transfer->is_offered()) failed_.push_back(message.transfer);
    return true;
  });
}

void Exchange::wait(Transfer& transfer, std::chrono::milliseconds timeout) {
  if (transfer.isCompleted()) return;
  const auto end = SteadyClock::now() + timeout;
  Patience patience(has_a_core_);
  Looks looks;
  ++waiters_;
  while (!transfer.isCompleted()) {
    const uint32_t seen = desk_.own().rings();
    if (try_pass()) {
      patience.begin();
      continue;
    }
    if (transfer.isCompleted() || patience.looks_again()) continue;
    desk_.own().sleep(seen, kLook);
    if (!looks.is_due()) continue;
    look_for_lost();
    if (SteadyClock::now() > end) give_up(transfer, timeout);
  }
  if (--waiters_ == 0 && carried_ > 0) wake();
}

void Exchange::run() {
  ::pthread_setname_np(::pthread_self(), "muster-messages");
  Looks looks;
  while (!ends_) {
    if (is_idle()) {
      rest();
      if (waiters_ == 0) try_pass();
      continue;
    }
    const uint32_t seen = desk_.own().rings();
    if (try_pass() || is_idle()) continue;
    desk_.own().sleep(seen, kTick);
    if (looks.is_due()) look_for_lost();
  }
}

// For a tick where messages are under way or come one after the other, else until it is woken: to wake it for
// each of many small ones would cost more than they do.
void Exchange::rest() {
  std::unique_lock lock(sleep_mutex_);
  rests_ = true;  // before it looks: whoever starts a message looks here after that
  if (under_way_ > 0 || owes_ || started_ != started_before_) rests_ = false;
  started_before_ = started_;
  const auto is_woken = [this] { return is_woken_; };
  rests_ ? woken_.wait(lock, is_woken) : (void)woken_.wait_for(lock, kTick, is_woken);
  is_woken_ = rests_ = false;
}

void Exchange::wake() {
  {
    const std::lock_guard lock(sleep_mutex_);
    is_woken_ = true;
  }
  woken_.notify_one();
  desk_.own().ring();  // it may sleep there, between two parts of a large message
}

// What came from a process before its end still counts.
void Exchange::look_for_lost() {
  const std::lock_guard lock(drives_);
  for (int64_t rank = 0; rank < desk_.size(); ++rank) {
    if (rank == desk_.rank() || desk_.neighbour(rank).peer.is_alive()) continue;
    while (pass()) continue;
    for (UnderWay& message : active_)
      if (message.transfer->needs(rank)) message.transfer->finish(error_of(desk_.neighbour(rank).peer.end()));
    end_over();
  }
}

void Exchange::give_up(Transfer& transfer, std::chrono::milliseconds timeout) {
  const std::lock_guard lock(drives_);
  if (transfer.isCompleted()) return;
  const int64_t rank = transfer.waits_for(desk_);
  const std::string who =
      rank < 0 ? "" : fmt::format(", rank {} did not come", desk_.neighbour(rank).peer.rank());
  transfer.finish(error_of(fmt::format("timed out after {} ms{}", timeout.count(), who)));
  end_over();
}

}  // namespace muster::comm
