// The traffic of a file that holds the optimizer's state (train/offload).
#pragma once
#include "telemetry/fields.h"

namespace muster::telemetry {

struct StateFileFigures {
  int64_t read_bytes = 0, written_bytes = 0;
  double busy_seconds = 0;     // of the wall, with a transfer under way
  double exposed_seconds = 0;  // that updates stood still for it
  // While it was busy; 0 where it never was.
  double bytes_per_second() const {
    return busy_seconds > 0 ? static_cast<double>(read_bytes + written_bytes) / busy_seconds : 0;
  }
  StateFileFigures operator-(const StateFileFigures& before) const {
    return {read_bytes - before.read_bytes, written_bytes - before.written_bytes,
            busy_seconds - before.busy_seconds, exposed_seconds - before.exposed_seconds};
  }
  StateFileFigures operator+(const StateFileFigures& more) const {
    return {read_bytes + more.read_bytes, written_bytes + more.written_bytes,
            busy_seconds + more.busy_seconds, exposed_seconds + more.exposed_seconds};
  }
};

template <Is<StateFileFigures> Self, class Visit>
void for_each_field(Self& self, Visit&& visit) {
  visit("read_bytes", self.read_bytes);
  visit("written_bytes", self.written_bytes);
  visit("busy_seconds", self.busy_seconds);
  visit("exposed_seconds", self.exposed_seconds);
}

}  // namespace muster::telemetry
