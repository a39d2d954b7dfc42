// muster train JOB [--procs N] [--run DIR]: trains; local ranks, or one rank under torchrun or srun.
#include <cstdio>
#include <cstdlib>

#include "base/units.h"
#include "cli/engine/verbs.h"
#include "cli/engine/workers.h"
#include "cli/job_options.h"
#include "cli/progress_bar.h"
#include "cli/verb.h"
#include "device/process_memory.h"
#include "launch/local_ranks.h"
#include "plan/rehearse.h"
#include "report/report.h"
#include "train/run.h"

namespace muster::cli {
namespace {

constexpr const char* kHelp =
    "Trains a job and writes a run folder: metrics.jsonl, TensorBoard events, weights, report.html.\n\n"
    "  muster train job.toml                              one process\n"
    "  muster train job.toml --procs 2 --run runs/first   two data-parallel processes on this host\n"
    "  muster train --resume --run runs/first             goes on from its newest checkpoint\n"
    "  torchrun --nproc-per-node 2 --no-python muster train job.toml --run runs/first\n"
    "  srun muster train job.toml --run runs/first";

// Rank 0 writes the weights when the others have ended.
constexpr std::chrono::minutes kFinishGrace{30};

struct Options {
  JobOptions job;
  int64_t procs = 0;
  std::string run;
  bool resume = false, check_collectives = false;
};

train::RunFolder run_folder(const Options& options, const spec::Job& job) {
  return options.resume ? train::resumed_run_folder(options.run) : train::choose_run_folder(options.run, job);
}

// What one host does before its ranks start.
void prepare(spec::Job& job, int64_t world_size, const Log& log) {
  train::check(job, world_size);
  ProgressBar bar("tokenize");
  const data::Prepared prepared =
      data::prepare(job, log, [&](int64_t done, int64_t all) { bar.show(done, all); });
  if (prepared.skipped_lines > 0)
    log.warning("{} lines of the data were skipped", format_exact(prepared.skipped_lines));
}

int train_rank(const Options& given, spec::Job& job, const comm::World& world,
               const train::RunFolder& folder) {
  Log log(world.size > 1 ? fmt::format("rank {}", world.rank) : "");
  train::RunOptions options;
  options.environment = launch::process_environment();
  options.checkpoints = folder.checkpoints();
  options.resume = given.resume;
  options.check_collectives = given.check_collectives;
  options.model_flops = plan::model_flops_per_step(job);
  File log_file;
  if (world.rank == 0) {
    log.set_prefix("");
    log_file = File::append(folder.log());
    log.also_to(log_file.fd());
    options.folder = folder;
    options.rehearsed = plan::rehearse(job, world.rank).record;
  }
  const telemetry::RunSummary summary = train::run(job, world, options, log);
  const int status = summary.stopped_by_signal == 0 ? 0 : 128 + static_cast<int>(summary.stopped_by_signal);
  if (world.rank != 0) return status;
  report::write_report(folder.path);
  log.info("\n{}\nreport: {}", telemetry::summary_table(summary), (folder.path / "report.html").string());
  if (status != 0) log.error("{}; --resume goes on", summary.exit_reason);
  if (given.job.json) std::printf("%s\n", telemetry::to_json(summary).dump(1).c_str());
  return status;
}

std::vector<std::string> rank_arguments(const Options& options, const train::RunFolder& folder) {
  std::vector<std::string> arguments = worker_arguments("train", options.job, "--run", folder.path.string());
  if (options.job.json) arguments.push_back("--json");
  if (options.resume) arguments.push_back("--resume");
  if (options.check_collectives) arguments.push_back("--check-collectives");
  return arguments;
}

bool has_finished(const train::RunFolder& folder, const spec::Job& job, const Log& log) {
  if (!train::is_finished(folder, job)) return false;
  log.info("the run in {} is finished, all {} steps of it: nothing is left to do", folder.path.string(),
           job.training.steps);
  return true;
}

// The command that a person typed: one process trains here, more are launched.
int train_here(const Options& options, spec::Job& job) {
  const Log log;
  const int64_t procs = ranks_of(options.procs, job.layout);
  const train::RunFolder folder = run_folder(options, job);
  prepare(job, procs, log);
  plan::check_memory(job, 0, procs);
  plan::check_offload_path(job, 0, procs);
  if (options.resume) train::check_resume(job, procs, folder.checkpoints());
  if (options.resume && has_finished(folder, job, log)) return 0;
  train::create(folder, job);
  if (procs == 1) return train_rank(options, job, {}, folder);
  const double started = Clock().seconds() - device::seconds_since_process_start();
  setenv(train::kStartedVariable, fmt::format("{:.6f}", started).c_str(), /*overwrite=*/1);
  return launch::run_local_ranks(
      procs, rank_arguments(options, folder), log,
      {.threads = static_cast<int>(job.training.threads), .finish_grace = kFinishGrace});
}

// One of many ranks, started by our launcher (which has checked and prepared everything), torchrun or srun.
int train_one_of_many(const Options& options, spec::Job& job, const comm::World& world) {
  const bool ours = !world.store_file.empty();
  if (!ours && options.run.empty())
    throw UserError(
        {"--run", "", "is needed when torchrun or srun start the ranks", "name the run's folder"});
  // Rank 0 makes the folder, so it alone can tell whether it was new.
  const train::RunFolder folder =
      ours || world.rank != 0 ? train::RunFolder{options.run} : run_folder(options, job);
  if (ours) {
    spec::resolve_layout(job, world.size);
  } else {
    world.local_rank == 0 ? prepare(job, world.size, Log()) : spec::resolve_layout(job, world.size);
    plan::check_memory(job, world.rank, world.rank + 1);
    plan::check_offload_path(job, world.rank, world.rank + 1);
    // On every rank alike: all see the one folder, and nobody has begun to change it.
    if (options.resume && has_finished(folder, job, world.rank == 0 ? Log() : Log("", LogLevel::error)))
      return 0;
    if (world.rank == 0) train::create(folder, job);
  }
  return as_one_of_many(world, [&] { return train_rank(options, job, world, folder); });
}

}  // namespace

int train(int argc, char** argv) {
  Options options;
  CLI::App app(kHelp, "muster train");
  add_job_options(app, options.job, /*is_required=*/false);
  app.add_option("--procs", options.procs, "ranks on this host (default: what the layout multiplies to)");
  app.add_option("--run", options.run, "the run's folder, a new one (default: runs/<job>-<number>)");
  app.add_flag("--resume", options.resume,
               "go on from the newest valid checkpoint in --run; without JOB, the job is that of the run");
  app.add_flag(
      "--check-collectives", options.check_collectives,
      "before each collective its ranks compare operation, shape and dtype; costs a round trip each");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  return guarded("train", [&] {
    if (options.job.path.empty() && options.resume && !options.run.empty())
      options.job.path = train::RunFolder{options.run}.job().string();
    if (options.job.path.empty())
      throw UserError({"JOB", "", "is missing", "give a job, or --resume --run DIR; --help explains"});
    spec::Job job = options.job.load();
    const auto world = launch::world_from(launch::process_environment());
    return world ? train_one_of_many(options, job, *world) : train_here(options, job);
  });
}

}  // namespace muster::cli
