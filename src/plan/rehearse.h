// A rehearsal: the program of one rank, run for a step on tensors without storage and groups without peers.
#pragma once
#include "base/json.h"
#include "spec/config/job.h"
#include "spec/hardware/hardware.h"
#include "telemetry/run_summary.h"
#include "telemetry/step_record.h"

namespace muster::plan {

// What a rank holds of a parameter beyond its end, because the tensor axis does not divide it.
struct Padding {
  std::string parameter;
  int64_t elements = 0;
};

// What the ranks that share a bucket hold of it together beyond its end, because their number does not divide
// it.
struct BucketPadding {
  int64_t first_unit = 0, last_unit = 0, elements = 0;
};

struct Rehearsal {
  int64_t rank = 0, world_size = 1;
  Json coordinate;               // {"data": 1, ...} by axis
  telemetry::StepRecord record;  // of one step; times are 0
  telemetry::MemoryFigures memory;
  double model_flops = 0;     // of this rank's share of a step (DESIGN section 5)
  double hardware_flops = 0;  // that ran on this rank
  std::vector<Padding> padding;
  std::vector<BucketPadding> bucket_padding;
  int64_t state_file_bytes = 0;  // on a file system, of the optimizer's state
  int64_t snapshot_bytes = 0;    // of host memory, that saves in the background take; 0: there are none
};

// `job` is resolved (resolve_layout). Takes milliseconds, and memory for shapes alone.
Rehearsal rehearse(const spec::Job& job, int64_t rank);

// The hardware that a job names, with the memory that the job gives it.
spec::Hardware hardware_of(const spec::Job& job);

// Refuses a job whose hardware.memory_bytes is less than the rehearsed peak of one of the ranks [first, end).
void check_memory(const spec::Job& job, int64_t first, int64_t end);
// Refuses a job whose layout.offload_path cannot take the files of the ranks [first, end), which share it.
void check_offload_path(const spec::Job& job, int64_t first, int64_t end);

// The object that `muster rehearse --json` prints; `hardware` is that of the job.
Json to_json(const Rehearsal& rehearsal, const spec::Hardware& hardware);
// The same for a person.
std::string to_text(const Rehearsal& rehearsal, const spec::Job& job, const spec::Hardware& hardware);

// Model FLOPs of one step over all ranks: forward and twice that for backward, attention causal,
// recomputation never.
double model_flops_per_step(const spec::Job& job);

}  // namespace muster::plan
