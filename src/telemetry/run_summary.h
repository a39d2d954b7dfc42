// summary.json of a run: what ran, how it went, where the time went, and what was rehearsed beside what was
// measured. Written by rank 0 when a run ends, however it ends.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "telemetry/exposure.h"
#include "telemetry/state_file_figures.h"

namespace muster::telemetry {

// The exit reason of a run that came to its end.
inline constexpr const char* kFinished = "finished";

// The memory of one rank, in bytes.
struct MemoryFigures {
  int64_t parameters = 0, master_parameters = 0, gradients = 0, optimizer = 0;  // persistent
  int64_t gathered_bytes = 0;  // most of parameters at a time beyond those: units that come and go
  int64_t peak_bytes = 0;      // on the device, without scratch
  std::string peak_at;         // "layer 3 attention, ..."
  int64_t scratch_peak_bytes = 0;
  int64_t host_optimizer = 0;  // of host memory, persistent: the optimizer's state that lives there
  // On the device.
  int64_t persistent() const { return parameters + master_parameters + gradients + optimizer; }
};
// Persistent: what was live when recording began.
MemoryFigures memory_figures(const StepRecord& record);

// Seconds of the wall that went elsewhere than into steps at full speed; of rank 0.
struct LostTime {
  double start_up = 0;               // from the process's start to the first step
  double data_wait = 0;              // the step stood still for its input
  double exposed_communication = 0;  // the step stood still for a message
  double evaluation = 0;
  double checkpoints = 0;  // what training waited for
  double state_file = 0;   // updates stood still for the optimizer's state
};

// Of the reporting process, as the system counts.
struct ProcessFigures {
  int64_t rss_after_libraries_bytes = 0;  // once the program and its libraries were loaded
  int64_t peak_rss_bytes = 0;
};

struct RunSummary {
  // What ran.
  std::string model_name;  // "llama2-7b", or the family where the job gave dimensions
  std::string family;
  int64_t parameters = 0;       // of the whole model
  Json model = Json::object();  // Hugging Face keys and values
  std::string layout;           // "data 2, ZeRO 0"
  int64_t world_size = 1;
  std::string device, dtype;  // "cpu", "float32" (compute)
  int64_t threads = 0;        // intra-op, a rank
  int64_t host_cores = 0;
  std::string muster_version, torch_version;
  int64_t sequence_length = 0, global_batch_size = 0, micro_batch_size = 0;

  // How it went.
  int64_t steps = 0, steps_planned = 0, skipped_steps = 0;
  int64_t resumed_from = 0;     // the step that this process went on from; 0: from the start
  std::string resume_contract;  // "deterministic-replay", "coverage-equivalent"; empty: from the start
  double first_loss = 0, last_loss = 0;
  std::optional<double> best_validation_loss;
  std::optional<int64_t> best_validation_step;
  int64_t tokens = 0;  // of this process's steps
  double wall_seconds = 0;
  std::optional<double> tokens_per_second;  // average without the first step
  std::string exit_reason;                  // "finished", or the first cause
  int64_t stopped_by_signal = 0;            // that somebody sent to have the run stopped; 0: none
  int64_t dropped_metrics = 0;

  // Utilisation, averages without the first step, as fractions.
  std::string mfu_convention;
  std::optional<double> mfu, hfu;
  std::optional<double> peak_flops;  // of one device
  std::string peak_source;

  LostTime lost_seconds;
  std::optional<MemoryFigures> rehearsed_memory, measured_memory;  // of rank 0
  ProcessFigures process;
  double start_to_first_step_seconds = 0;  // from the start of the first process of the run
  std::vector<MessageTotal> rehearsed_messages, measured_messages;  // of one step of rank 0
  std::optional<StateFileFigures> state_file;                       // of rank 0, all steps
  std::string state_file_how;                                       // "direct, io_uring"
  std::vector<Exposure> exposures;                                  // of that step, measured
};

Json to_json(const RunSummary& summary);
// WorldError(data) where a key holds what it cannot; missing keys keep their defaults.
RunSummary run_summary_from_json(const Json& json, const std::string& source);
// Of the file; nothing where there is none: the run goes on, or was killed.
std::optional<RunSummary> read_run_summary(const fs::path& file);

// The summary as aligned text, for a terminal.
std::string summary_table(const RunSummary& summary);

}  // namespace muster::telemetry
