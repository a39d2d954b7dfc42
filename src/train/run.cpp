#include "train/run.h"

#include <ATen/Parallel.h>

#include <thread>

#include "checkpoint/hugging_face.h"
#include "device/plugin.h"
#include "device/process_memory.h"
#include "launch/fault.h"
#include "launch/progress.h"
#include "train/state.h"

namespace muster::train {
namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

int64_t threads_of(const spec::Job& job, const comm::World& world) {
  if (job.training.threads > 0) return job.training.threads;
  return std::max<int64_t>(1, std::thread::hardware_concurrency() / world.local_size);
}

void warn_of_crowd(int64_t ranks, const Log& log) {
  const int64_t threads = at::get_num_threads(), cores = std::thread::hardware_concurrency();
  if (ranks * threads > cores)
    log.warning(
        "{} ranks of {} threads share {} cores: they take turns, and speeds are not those of a rank alone",
        ranks, threads, cores);
}

launch::Phase phase_of(const std::string& name) {
  if (name == "forward") return launch::Phase::forward;
  if (name == "backward") return launch::Phase::backward;
  if (name == "update") return launch::Phase::update;
  if (name == "save") return launch::Phase::save;
  if (name == "evaluate") return launch::Phase::evaluate;
  MUSTER_CHECK(name == "reduce_finish", "phase {}", name);
  return launch::Phase::reduce;
}

// Tells the launcher where this rank is, and lets a test's fault happen there.
class Watch {
 public:
  Watch(const launch::Environment& environment, int64_t rank)
      : reporter_(launch::Reporter::from(environment)), fault_(launch::Fault::from(environment, rank)) {}
  void at(launch::Phase phase, int64_t step, int64_t micro_batch = 0) {
    reporter_.at(phase, step, micro_batch);
    fault_.at(phase, step);
  }

 private:
  launch::Reporter reporter_;
  launch::Fault fault_;
};

}  // namespace

telemetry::RunSummary run(const spec::Job& job, const comm::World& world, const RunOptions& options,
                          const Log& log) {
  const Clock clock;
  LoopOptions loop;
  const std::optional<std::string> launched = options.environment(kStartedVariable);
  loop.started_seconds =
      launched ? std::stod(*launched) : clock.seconds() - device::seconds_since_process_start();
  loop.rss_after_libraries_bytes = device::resident_bytes();
  loop.folder = options.folder;
  loop.rehearsed = options.rehearsed;
  loop.model_flops = options.model_flops;
  loop.checkpoints = options.checkpoints;
  loop.resume = options.resume;
  loop.hardware = spec::load_hardware(job.hardware.name);
  loop.ranks_on_host = world.local_size;
  at::set_num_threads(static_cast<int>(threads_of(job, world)));
  if (world.rank == 0) warn_of_crowd(world.local_size, log);

  if (job.training.device == "cuda") device::cuda_plugin().use_device(static_cast<int>(world.local_rank));

  Watch watch(options.environment, world.rank);
  watch.at(launch::Phase::data, 0);
  const data::Dataset training = data::Dataset::open_training(job);
  const std::optional<data::Dataset> validation = data::Dataset::open_validation(job);

  watch.at(launch::Phase::connect, 0);
  const spec::Mesh mesh = spec::make_mesh(job.layout);
  const auto timeout = milliseconds(job.training.collective_timeout_seconds);
  comm::Groups groups =
      comm::connect(mesh, world, job.training.device, timeout,
                    {timeout, options.check_collectives, job.training.host_transport == "memory"});
  if (world.rank == 0 && world.size > 1) log.info("ranks talk through {}", groups.transport());

  watch.at(launch::Phase::load, 0);
  const at::Device device = job.training.device == "cuda"
                                ? at::Device(at::kCUDA, static_cast<int8_t>(world.local_rank))
                                : at::Device(at::kCPU);
  Rank rank(job, mesh, world.rank, std::move(groups), device, clock);
  if (world.rank == 0 && !rank.weights_id().empty())
    log.info("starts from the weights of {}", rank.weights_id());
  loop.observe = [&](const char* phase, int64_t step, int64_t micro_batch) {
    watch.at(phase_of(phase), step, micro_batch);
  };
  const telemetry::RunSummary summary =
      train(rank, job, training, validation ? &*validation : nullptr, loop, log);
  watch.at(launch::Phase::finish, job.training.steps);
  return summary;
}

void check_resume(const spec::Job& job, int64_t world_size, const fs::path& checkpoints) {
  for (const checkpoint::Listed& listed :
       checkpoint::list_checkpoints(checkpoints, Log("", LogLevel::error))) {
    if (listed.standing != checkpoint::Standing::valid) continue;
    checkpoint::Expected expected = expected_of(job, world_size);
    expected.data = data_of(job);
    const checkpoint::Differences differences = checkpoint::compare(listed.opened->manifest, expected);
    const std::string name = to_string(listed.name);
    Problems problems;
    if (!differences.data.empty()) problems.add(UserError(differences.data));
    if (const auto problem = rate_problem(listed.opened->manifest, job)) problems.add(UserError({*problem}));
    if (!differences.job.empty())
      problems.add("--resume", checkpoints.string(), name + " is of another run: " + differences.job,
                   "give the same job, or start a new run");
    if (!differences.layout.empty() && expected.contract == checkpoint::kReplay)
      problems.add("checkpoint.contract", expected.contract,
                   "takes the same layout, and " + name + " is of another: " + differences.layout,
                   "give that layout, or set checkpoint.contract = \"coverage-equivalent\"");
    return problems.throw_if_any();
  }
}

void check(spec::Job& job, int64_t world_size) {
  Problems problems;
  problems.gather([&] { spec::resolve_layout(job, world_size); });
  data::check(job, problems);
  if (!job.weights.empty())
    problems.gather([&] { checkpoint::check_weights(job.weights, spec::ParameterTable(job.model)); });
  problems.gather([&] { spec::load_hardware(job.hardware.name); });
  if (job.training.device == "cuda") problems.gather([] { device::cuda_plugin(); });
  problems.throw_if_any();
}

}  // namespace muster::train
