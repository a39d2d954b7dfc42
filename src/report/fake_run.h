// A run folder as training leaves it, made up for tests: a small transformer on two data-parallel ranks.
#pragma once
#include "base/file.h"
#include "telemetry/step_record.h"

namespace muster::report::testing {

// Forward and backward of `layers` layers in each of `micro_batches`, gradient buckets reduced meanwhile, one
// update. With `timed`, operators, messages and spans carry times, and matmuls take scratch.
telemetry::StepRecord fake_record(int layers, int micro_batches, bool timed);

// Writes every file of a run of `steps` steps into `folder`.
void write_fake_run(const fs::path& folder, int steps);

}  // namespace muster::report::testing
