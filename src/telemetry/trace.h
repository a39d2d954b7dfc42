// A step record as a trace in the JSON of Chrome's trace viewer, which Perfetto opens.
// Format: "Trace Event Format" (Chromium): events X (complete), C (counter), s and f (flow), M (metadata);
// times in microseconds.
#pragma once
#include <string>
#include <vector>

#include "telemetry/step_record.h"

namespace muster::telemetry {

// One process per rank, one thread per track: operators, each track of spans, each axis (several threads
// where its messages overlap); memory by category as counters; flows from a message's issue to its end; in a
// track of its own ("exposed") when the rank stood still for which message. The records share one clock; the
// earliest event is at 0.
std::string chrome_trace(const std::vector<const StepRecord*>& ranks);

// Which of several rows each interval is drawn in, so that none overlaps another in its row: the first row
// that is free at its start. Intervals are (start, end) in any order.
std::vector<size_t> rows_of(const std::vector<std::pair<double, double>>& intervals);

}  // namespace muster::telemetry
