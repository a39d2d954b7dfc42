// What a run folder holds, each part read if it is there; a part that is missing or damaged is a reason, not
// a failure. Files in it are untrusted.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "telemetry/metrics.h"
#include "telemetry/run_summary.h"
#include "telemetry/step_record.h"

namespace muster::report {

struct RunFiles {
  std::string name;                                  // of the folder
  std::optional<std::string> job_toml;               // job.toml
  std::vector<telemetry::StepMetrics> steps;         // metrics.jsonl: ascending, one a step
  int64_t unreadable_lines = 0, repeated_steps = 0;  // of metrics.jsonl; the last line of a step counts
  std::optional<telemetry::RunSummary> summary;      // summary.json
  std::optional<telemetry::StepRecord> measured;     // trace/record.measured.json
  std::optional<telemetry::StepRecord> rehearsed;    // trace/record.rehearsed.json
  std::vector<std::string> traces;                   // trace/rank*.json, relative to the folder
  std::map<std::string, std::string> problems;       // file -> why it is not above
};

// UserError where `folder` is no folder.
RunFiles read_run(const fs::path& folder);

}  // namespace muster::report
