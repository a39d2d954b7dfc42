#include "launch/stop_request.h"

#include <signal.h>

namespace muster::launch {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT};

// A handler can reach nothing but a global.
volatile sig_atomic_t caught = 0;

void note(int number) {
  caught = number;
}

}  // namespace

StopRequest::StopRequest() {
  caught = 0;
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

}  // namespace muster::launch
