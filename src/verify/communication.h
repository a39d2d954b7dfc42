// Proof: the messages that a rehearsal foretells are those that the run sends.
#pragma once
#include "verify/check.h"
#include "verify/witness.h"

namespace muster::verify {

// Totals by axis and operation, and every message in order: axis, operation, bytes, group size.
std::vector<Check> communication(const telemetry::StepRecord& rehearsed, const Witness& rank);

}  // namespace muster::verify
