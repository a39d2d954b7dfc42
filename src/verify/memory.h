// Proof: the bytes that a rehearsal foretells are those that the run takes.
#pragma once
#include "verify/check.h"
#include "verify/witness.h"

namespace muster::verify {

// Persistent bytes by category, the peak and where it is, every single change of live memory: equal. What
// library operators took inside themselves is in the record as scratch and is not compared: a rehearsal does
// not run them.
std::vector<Check> memory(const telemetry::StepRecord& rehearsed, const Witness& rank);

}  // namespace muster::verify
