// A step record as a trace in the JSON of Chrome's trace viewer, which Perfetto opens.
#pragma once
#include <string>
#include <vector>

#include "telemetry/step_record.h"

namespace muster::telemetry {

// One process per rank, one thread per track; memory by category as counters; flows from a message's issue to
// its end.
std::string chrome_trace(const std::vector<const StepRecord*>& ranks);

}  // namespace muster::telemetry
