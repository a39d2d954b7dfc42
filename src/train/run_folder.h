// The folder of a run: what is where, and that it is new.
#pragma once
#include "base/file.h"
#include "spec/config/job.h"

namespace muster::train {

struct RunFolder {
  fs::path path;
  fs::path job() const { return path / "job.toml"; }
  fs::path metrics() const { return path / "metrics.jsonl"; }
  fs::path log() const { return path / "log.txt"; }
  fs::path summary() const { return path / "summary.json"; }
  fs::path trace() const { return path / "trace"; }
  fs::path checkpoints() const { return path / "checkpoints"; }
  fs::path weights() const { return path / "weights"; }  // a Hugging Face folder, written at the end
};

// `asked` empty: a new folder runs/<job name>-<number>. A folder that already holds steps of a run is refused
// (UserError); one whose run never came to its first step may be used again.
RunFolder choose_run_folder(const std::string& asked, const spec::Job& job);
// The folder whose run goes on; it may be new. `asked` empty: UserError.
RunFolder resumed_run_folder(const std::string& asked);
// Whether the folder's run has come to its end, and there is nothing to go on with. UserError where it has,
// `job` wants another number of steps, and no checkpoint can be gone on from to there.
bool is_finished(const RunFolder& folder, const spec::Job& job);
// Makes the folder and writes the effective job into it.
void create(const RunFolder& folder, const spec::Job& job);

}  // namespace muster::train
