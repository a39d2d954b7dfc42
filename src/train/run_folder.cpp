#include "train/run_folder.h"

#include "base/error.h"
#include "telemetry/run_summary.h"

namespace muster::train {

RunFolder choose_run_folder(const std::string& asked, const spec::Job& job) {
  if (!asked.empty()) {
    const RunFolder folder{asked};
    std::error_code ignored;  // create() says why a folder cannot be
    if (fs::exists(folder.metrics(), ignored))
      throw UserError({"--run", asked, "must be a new folder, and this one holds a run",
                       "name another, or remove it first"});
    return folder;
  }
  const std::string name = fs::path(job.path).stem().string();
  for (int number = 1;; ++number) {
    RunFolder folder{fs::path("runs") / fmt::format("{}-{:03}", name, number)};
    if (!fs::exists(folder.path)) return folder;
  }
}

RunFolder resumed_run_folder(const std::string& asked) {
  if (asked.empty())
    throw UserError({"--run", "", "is needed with --resume", "name the folder of the run that goes on"});
  return {asked};
}

bool is_finished(const RunFolder& folder, const spec::Job& job) {
  const std::optional<telemetry::RunSummary> summary = telemetry::read_run_summary(folder.summary());
  if (!summary || summary->exit_reason != telemetry::kFinished) return false;
  if (job.training.steps == summary->steps_planned) return true;
  if (job.training.steps > summary->steps_planned && fs::exists(folder.checkpoints())) return false;
  throw UserError(
      {"training.steps", std::to_string(job.training.steps),
       fmt::format(
           "differs from the {} that the run in {} has finished with, and it has no checkpoint to go on "
           "from",
           summary->steps_planned, folder.path.string()),
       fmt::format("start a new run from its weights: --set model.weights={}", folder.weights().string())});
}

void create(const RunFolder& folder, const spec::Job& job) {
  std::error_code error;
  fs::create_directories(folder.trace(), error);
  if (error)
    throw UserError(
        {"--run", folder.path.string(), "cannot be made: " + error.message(), "name a writable place"});
  write_text(folder.job(), spec::effective_toml(job));
}

}  // namespace muster::train
