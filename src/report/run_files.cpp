#include "report/run_files.h"

#include <algorithm>
#include <functional>
#include <sstream>

#include "base/error.h"
#include "base/units.h"

namespace muster::report {
namespace {

constexpr int64_t kMostBytes = 512 * MiB;

// Runs `read` on the file's text; what it throws becomes the file's problem.
void read_file(RunFiles& run, const fs::path& folder, const std::string& file,
               const std::function<void(const std::string&)>& read) {
  try {
    if (!fs::exists(folder / file)) throw WorldError(WorldError::Kind::disk, file + " is not there");
    read(read_text(folder / file, kMostBytes));
  } catch (const std::exception& error) {
    run.problems[file] = error.what();
  }
}

void read_steps(RunFiles& run, const std::string& text) {
  std::map<int64_t, telemetry::StepMetrics> by_step;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    try {
      auto metrics = telemetry::step_metrics_from_json(parse_json(line, "metrics.jsonl"), "metrics.jsonl");
      const int64_t step = metrics.step;
      run.repeated_steps += !by_step.insert_or_assign(step, std::move(metrics)).second;
    } catch (const WorldError&) {
      ++run.unreadable_lines;
    }
  }
  for (auto& [step, metrics] : by_step) run.steps.push_back(std::move(metrics));
}

std::optional<telemetry::StepRecord> read_record(const std::string& text, const std::string& file) {
  return telemetry::step_record_from_json(parse_json(text, file), file);
}

std::vector<std::string> find_traces(const fs::path& folder) {
  std::vector<std::string> traces;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / "trace", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank") && name.ends_with(".json")) traces.push_back("trace/" + name);
  }
  std::sort(traces.begin(), traces.end());
  return traces;
}

}  // namespace

RunFiles read_run(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw UserError({"RUN", folder.string(), "must be the folder of a run",
                     "name a folder that `muster train --run DIR` wrote"});
  RunFiles run;
  run.name = fs::weakly_canonical(folder).filename().string();
  read_file(run, folder, "job.toml", [&](const std::string& text) { run.job_toml = text; });
  read_file(run, folder, "metrics.jsonl", [&](const std::string& text) { read_steps(run, text); });
  read_file(run, folder, "summary.json", [&](const std::string& text) {
    run.summary = telemetry::run_summary_from_json(parse_json(text, "summary.json"), "summary.json");
  });
  const std::string measured = "trace/record.measured.json", rehearsed = "trace/record.rehearsed.json";
  read_file(run, folder, measured,
            [&](const std::string& text) { run.measured = read_record(text, measured); });
  read_file(run, folder, rehearsed,
            [&](const std::string& text) { run.rehearsed = read_record(text, rehearsed); });
  run.traces = find_traces(folder);
  return run;
}

}  // namespace muster::report
