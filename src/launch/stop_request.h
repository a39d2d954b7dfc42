// SIGTERM and SIGINT as a wish that the loop grants at its next step. The first of a kind is noted; a second
// ends the process at once, as it does everywhere else.
#pragma once

namespace muster::launch {

// While it lives, the signals are caught. One a process.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;

  // The signal that came, or 0.
  int signal() const;
  // When it came, on the monotonic clock; 0 where none did.
  double seconds() const;
};

}  // namespace muster::launch
