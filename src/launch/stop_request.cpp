#include "launch/stop_request.h"

#include <signal.h>
#include <time.h>

#include <atomic>

namespace muster::launch {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT};

// A handler can reach nothing but a global.
volatile sig_atomic_t caught = 0;
std::atomic<int64_t> caught_ns = 0;
static_assert(std::atomic<int64_t>::is_always_lock_free);

void note(int number) {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  caught_ns = int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
  caught = number;
}

}  // namespace

StopRequest::StopRequest() {
  caught = 0;
  caught_ns = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (int number : kSignals) ::sigaction(number, &action, nullptr);
}

StopRequest::~StopRequest() {
  for (int number : kSignals) ::signal(number, SIG_DFL);
}

int StopRequest::signal() const {
  return caught;
}

double StopRequest::seconds() const {
  return static_cast<double>(caught_ns.load()) * 1e-9;
}

}  // namespace muster::launch
