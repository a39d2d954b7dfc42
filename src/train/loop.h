// The training loop of one rank: steps, evaluation, figures, the end.
#pragma once
#include <optional>

#include "data/dataset.h"
#include "spec/hardware/hardware.h"
#include "telemetry/run_summary.h"
#include "train/rank.h"
#include "train/run_folder.h"

namespace muster::train {

struct LoopOptions {
  std::optional<RunFolder> folder;                 // of the reporting rank; others write nothing
  std::optional<telemetry::StepRecord> rehearsed;  // this rank's, to be shown beside what is measured
  double model_flops = 0;                          // of one step, all ranks
  spec::Hardware hardware;
  PhaseObserver observe;
  fs::path checkpoints;  // the run's folder of them, the same on all ranks
  bool resume = false;
  int64_t ranks_on_host = 1;
  double started_seconds = 0;  // of the process, on the rank's clock
  int64_t rss_after_libraries_bytes = 0;
};

// Runs all steps of the job. Collective over the mesh. The reporting rank writes metrics as they come, and
// records, summary and weights at the end. A run that was asked to stop has `stopped_by_signal` in its
// summary, on every rank, and no final weights.
telemetry::RunSummary train(Rank& rank, const spec::Job& job, const data::Dataset& training,
                            const data::Dataset* validation, const LoopOptions& options, const Log& log);

}  // namespace muster::train
