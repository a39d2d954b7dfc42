#include "train/reporter.h"

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <thread>

#include "base/units.h"
#include "base/version.h"
#include "device/process_memory.h"
#include "telemetry/progress_line.h"
#include "telemetry/trace.h"

namespace muster::train {
namespace {

std::string peak_source(const spec::Hardware& hardware) {
  return hardware.source.empty() ? hardware.name : hardware.source;
}

}  // namespace

Reporter::Reporter(const spec::Job& job, Rank& rank, const LoopOptions& options, int64_t steps_before,
                   const std::string& contract, const Log& log)
    : job_(job),
      rank_(rank),
      options_(options),
      log_(log),
      peak_flops_(options.hardware.peak(job.numerics.compute)) {
  // A CPU rank runs on its threads, and the file's peak is that of the machine's cores: all ranks here share
  // it.
  if (peak_flops_ && job.training.device == "cpu")
    *peak_flops_ *= std::min(1.0 / static_cast<double>(options.ranks_on_host),
                             static_cast<double>(at::get_num_threads()) /
                                 static_cast<double>(std::thread::hardware_concurrency()));
  if (options.folder) {
    sinks_.push_back(telemetry::make_jsonl_sink(options.folder->metrics(), log));
    sinks_.push_back(telemetry::make_tensorboard_sink(options.folder->path, log));
  }
  if (options.rehearsed) rehearsed_memory_ = telemetry::memory_figures(*options.rehearsed);
  summary_ = describe();
  summary_.resumed_from = steps_before;
  summary_.resume_contract = contract;
  say_start();
}

telemetry::RunSummary Reporter::describe() const {
  telemetry::RunSummary s;
  s.family = spec::to_string(job_.model.family);
  s.model_name = s.family;
  s.parameters = rank_.table().elements();
  s.model = Json::parse(spec::to_hf_config(job_.model));
  s.layout = spec::describe(job_.layout);
  s.world_size = rank_.mesh().world_size();
  s.device = job_.training.device;
  s.dtype = job_.numerics.compute;
  s.threads = at::get_num_threads();
  s.host_cores = std::thread::hardware_concurrency();
  s.muster_version = kVersion;
  s.torch_version = TORCH_VERSION;
  s.sequence_length = job_.data.sequence_length;
  s.global_batch_size = job_.training.global_batch_size;
  s.micro_batch_size = job_.training.micro_batch_size;
  s.steps_planned = job_.training.steps;
  s.peak_flops = peak_flops_;
  s.peak_source = peak_source(options_.hardware);
  if (const StateFile* file = rank_.optimizer().file()) s.state_file_how = file->how();
  s.mfu_convention = telemetry::convention(s.dtype, s.world_size, peak_flops_, s.peak_source);
  return s;
}

void Reporter::say_start() {
  log_.info("{} with {} parameters, {} on {} ranks of {} ({} threads each), {} sequences of {} a step",
            summary_.family, format_count(static_cast<double>(summary_.parameters)), summary_.layout,
            summary_.world_size, summary_.device, summary_.threads, summary_.global_batch_size,
            summary_.sequence_length);
  log_.info("{}", summary_.mfu_convention);
  if (!summary_.state_file_how.empty())
    log_.info("the optimizer's state is in a file of {} a rank: {}",
              format_bytes(rank_.optimizer().file_bytes()), summary_.state_file_how);
  if (rehearsed_memory_)
    log_.info("rehearsed: {} persistent, peak {} at {}", format_bytes(rehearsed_memory_->persistent()),
              format_bytes(rehearsed_memory_->peak_bytes), rehearsed_memory_->peak_at);
  if (rehearsed_memory_ && rehearsed_memory_->host_optimizer > 0)
    log_.info("rehearsed: {} of optimizer state in host memory",
              format_bytes(rehearsed_memory_->host_optimizer));
}

std::optional<double> Reporter::share_of_peak(double flops, double seconds) {
  if (peak_is_wrong_) return std::nullopt;
  try {
    return telemetry::utilisation(flops, seconds, summary_.world_size, peak_flops_);
  } catch (const Bug& error) {
    peak_is_wrong_ = true;
    log_.error(
        "MFU is left out from here on: {}; the peak of hardware \"{}\" ({}) is too low, `muster probe` "
        "measures it",
        error.what(), job_.hardware.name, summary_.peak_source);
    return std::nullopt;
  }
}

void Reporter::step_done(telemetry::StepMetrics metrics, double hardware_flops) {
  const double now = rank_.executor().clock().seconds();
  if (summary_.steps == 0) {
    first_step_seconds_ = now - metrics.step_seconds;
    summary_.first_loss = metrics.loss;
    if (summary_.resumed_from > 0) metrics.resumed = summary_.resume_contract;
  }
  metrics.mfu = share_of_peak(options_.model_flops, metrics.step_seconds);
  metrics.hfu = share_of_peak(hardware_flops, metrics.step_seconds);
  pace_.step_done(now, metrics.step_seconds);
  ++summary_.steps;
  summary_.skipped_steps += metrics.skipped;
  summary_.tokens += metrics.tokens;
  summary_.last_loss = metrics.loss;
  summary_.lost_seconds.data_wait += metrics.data_wait_seconds;
  summary_.lost_seconds.exposed_communication += metrics.exposed_communication_seconds;
  if (metrics.state_file) {
    summary_.state_file = summary_.state_file.value_or(telemetry::StateFileFigures{}) + *metrics.state_file;
    summary_.lost_seconds.state_file += metrics.state_file->exposed_seconds;
  }
  if (summary_.steps > 1) {
    timed_seconds_ += metrics.step_seconds;
    timed_tokens_ += metrics.tokens;
    ++timed_steps_;
    mfu_sum_ += metrics.mfu.value_or(0);
    hfu_sum_ += metrics.hfu.value_or(0);
  }
  for (auto& sink : sinks_) sink->write(metrics);
  if (metrics.step % job_.training.log_every == 0 || metrics.step == 1 ||
      metrics.step == job_.training.steps) {
    telemetry::Progress progress{
        job_.training.steps, {}, pace_.seconds_left(job_.training.steps - metrics.step)};
    if (rehearsed_memory_) progress.rehearsed_peak_bytes = rehearsed_memory_->peak_bytes;
    log_.info("{}", telemetry::progress_line(metrics, progress));
  }
}

void Reporter::evaluation_done(int64_t step, double loss, double seconds) {
  summary_.lost_seconds.evaluation += seconds;
  if (summary_.best_validation_loss && *summary_.best_validation_loss <= loss) return;
  summary_.best_validation_loss = loss;
  summary_.best_validation_step = step;
}

void Reporter::checkpoint_done(double seconds) {
  summary_.lost_seconds.checkpoints += seconds;
}

telemetry::RunSummary Reporter::finish(const telemetry::StepRecord& measured, const std::string& exit_reason,
                                       int stop_signal) {
  const double now = rank_.executor().clock().seconds();
  telemetry::RunSummary& s = summary_;
  s.exit_reason = exit_reason;
  s.stopped_by_signal = stop_signal;
  if (s.steps == 0) first_step_seconds_ = now;
  s.wall_seconds = now - options_.started_seconds;
  s.lost_seconds.start_up = first_step_seconds_ - options_.started_seconds;
  s.start_to_first_step_seconds = s.lost_seconds.start_up;
  if (timed_steps_ > 0) {
    s.tokens_per_second = static_cast<double>(timed_tokens_) / timed_seconds_;
    if (peak_flops_) {
      s.mfu = mfu_sum_ / static_cast<double>(timed_steps_);
      s.hfu = hfu_sum_ / static_cast<double>(timed_steps_);
    }
  }
  s.measured_memory = telemetry::memory_figures(measured);
  s.measured_messages = measured.message_totals();
  s.exposures = telemetry::exposures(measured);
  s.rehearsed_memory = rehearsed_memory_;
  if (options_.rehearsed) s.rehearsed_messages = options_.rehearsed->message_totals();
  s.process.rss_after_libraries_bytes = options_.rss_after_libraries_bytes;
  s.process.peak_rss_bytes = device::peak_resident_bytes();
  for (auto& sink : sinks_) {
    sink->flush();
    s.dropped_metrics += sink->dropped();
  }
  if (options_.folder) {
    const RunFolder& folder = *options_.folder;
    write_text(folder.trace() / "record.measured.json", telemetry::to_json(measured).dump());
    if (options_.rehearsed)
      write_text(folder.trace() / "record.rehearsed.json", telemetry::to_json(*options_.rehearsed).dump());
    write_text(folder.trace() / "rank0.json", telemetry::chrome_trace({&measured}));
    write_text(folder.summary(), telemetry::to_json(s).dump(1));
  }
  return s;
}

}  // namespace muster::train
