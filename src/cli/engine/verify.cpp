// muster verify JOB [--procs N]: the proofs, on the user's own layout.
#include <cstdio>
#include <cstdlib>

#include "cli/engine/verbs.h"
#include "cli/engine/workers.h"
#include "cli/job_options.h"
#include "cli/verb.h"
#include "launch/local_ranks.h"
#include "plan/rehearse.h"
#include "train/run.h"
#include "verify/communication.h"
#include "verify/matrix_update.h"
#include "verify/memory.h"
#include "verify/replicas.h"
#include "verify/update_equivalence.h"

namespace muster::cli {
namespace {

constexpr const char* kHelp =
    "Runs a job's layout on this host and proves: loss, every gradient, the norm and one update equal those "
    "of one\n"
    "process; memory and messages equal the rehearsal's, to the byte. Exit status 0 only where all of it "
    "holds.\n\n"
    "  muster verify job.toml --procs 4\n"
    "  muster verify job.toml --procs 2 --set numerics.compute=float64 --json";

struct Options {
  JobOptions job;
  int64_t procs = 0;
  bool check_collectives = false;
  std::string witness;  // set for a worker: where its evidence goes
};

// A folder that goes when its owner does.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "muster-verify-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw WorldError(WorldError::Kind::disk, "cannot make a folder like " + pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

int testify(const Options& options, spec::Job& job, const comm::World& world) {
  spec::resolve_layout(job, world.size);
  return as_one_of_many(world, [&] {
    verify::write(verify::testify(job, world, options.check_collectives), options.witness);
    return 0;
  });
}

spec::Job for_one_process(spec::Job job) {
  job.layout = {};
  spec::resolve_layout(job, 1);
  return job;
}

std::vector<verify::Check> prove(const spec::Job& job, const std::vector<verify::Witness>& ranks) {
  const verify::Witness one = verify::testify(for_one_process(job), {});
  std::vector<verify::Check> checks = verify::update_equivalence(job, one, ranks);
  const auto add = [&](std::vector<verify::Check> more) {
    checks.insert(checks.end(), more.begin(), more.end());
  };
  add(verify::matrix_update(job, one, ranks));
  add(verify::replicas(job, ranks));
  std::vector<telemetry::StepRecord> rehearsed;
  for (const verify::Witness& rank : ranks) rehearsed.push_back(plan::rehearse(job, rank.rank).record);
  for (size_t at = 0; at < ranks.size(); ++at) add(verify::memory(rehearsed[at], ranks[at]));
  for (size_t at = 0; at < ranks.size(); ++at) add(verify::communication(rehearsed[at], ranks[at]));
  return checks;
}

int verify_here(const Options& options, spec::Job& job) {
  const Log log;
  const int64_t procs = ranks_of(options.procs, job.layout);
  train::check(job, procs);
  plan::check_offload_path(job, 0, procs);
  data::prepare(job, log);
  const TemporaryFolder folder;
  std::vector<std::string> arguments =
      worker_arguments("verify", options.job, "--witness", folder.path().string());
  if (options.check_collectives) arguments.push_back("--check-collectives");
  const int status =
      launch::run_local_ranks(procs, arguments, log, {.threads = static_cast<int>(job.training.threads)});
  if (status != 0) return status;
  std::vector<verify::Witness> ranks;
  for (int64_t rank = 0; rank < procs; ++rank) ranks.push_back(verify::read(folder.path(), rank, job));
  const std::vector<verify::Check> checks = prove(job, ranks);
  std::printf("%s", options.job.json ? (verify::to_json(checks).dump(1) + "\n").c_str()
                                     : verify::to_text(checks).c_str());
  return verify::all_passed(checks) ? 0 : 1;
}

}  // namespace

int verify(int argc, char** argv) {
  Options options;
  CLI::App app(kHelp, "muster verify");
  add_job_options(app, options.job);
  app.add_option("--procs", options.procs, "ranks on this host (default: what the layout multiplies to)");
  app.add_flag(
      "--check-collectives", options.check_collectives,
      "before each collective its ranks compare operation, shape and dtype; costs a round trip each");
  app.add_option("--witness", options.witness, "")->group("");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  return guarded("verify", [&] {
    spec::Job job = options.job.load();
    const auto world = launch::world_from(launch::process_environment());
    return world && !options.witness.empty() ? testify(options, job, *world) : verify_here(options, job);
  });
}

}  // namespace muster::cli
