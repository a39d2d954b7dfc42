// muster rehearse JOB [--rank R | --all] [--world N]: every byte, FLOP and message of a rank, without running
// it.
#include <cstdio>

#include "base/units.h"
#include "cli/engine/verbs.h"
#include "cli/job_options.h"
#include "cli/verb.h"
#include "plan/rehearse.h"
#include "spec/mesh/mesh.h"

namespace muster::cli {
namespace {

constexpr const char* kHelp =
    "Runs the program of one rank for a step on tensors without storage and groups without peers: the "
    "numbers\n"
    "that it prints are those that the run will have.\n\n"
    "  muster rehearse job.toml                          rank 0 of the job's layout\n"
    "  muster rehearse job.toml --world 512 --rank 511   one rank of a larger world\n"
    "  muster rehearse job.toml --all --json             every rank, one object";

struct Options {
  JobOptions job;
  int64_t rank = 0, world = 0;
  bool all = false;
};

// The world that a job's layout describes when nobody names one.
int64_t world_of(const spec::Job& job) {
  const spec::LayoutConfig& layout = job.layout;
  return std::max<int64_t>(1, layout.data) * layout.tensor * layout.context * layout.pipeline;
}

int rehearse_one(const spec::Job& job, const Options& options) {
  const spec::Hardware hardware = plan::hardware_of(job);
  const plan::Rehearsal rehearsal = plan::rehearse(job, options.rank);
  const std::string text =
      options.job.json ? plan::to_json(rehearsal, hardware).dump(1) : plan::to_text(rehearsal, job, hardware);
  std::printf("%s\n", text.c_str());
  return 0;
}

int rehearse_all(const spec::Job& job, const Options& options) {
  const spec::Hardware hardware = plan::hardware_of(job);
  Json ranks = Json::array();
  for (int64_t rank = 0; rank < spec::make_mesh(job.layout).world_size(); ++rank)
    ranks.push_back(plan::to_json(plan::rehearse(job, rank), hardware));
  if (options.job.json) {
    std::printf("%s\n", Json{{"ranks", ranks}}.dump(1).c_str());
    return 0;
  }
  for (const Json& rank : ranks)
    std::printf("rank %-5s peak %-12s at %s\n", rank["rank"].dump().c_str(),
                format_bytes(rank["peak_bytes"].get<int64_t>()).c_str(),
                rank["peak_at"].get<std::string>().c_str());
  return 0;
}

}  // namespace

int rehearse(int argc, char** argv) {
  Options options;
  CLI::App app(kHelp, "muster rehearse");
  add_job_options(app, options.job);
  auto* rank = app.add_option("--rank", options.rank, "which rank (default 0)");
  app.add_flag("--all", options.all, "every rank, one after another")->excludes(rank);
  app.add_option("--world", options.world, "ranks in the world (default: what the layout multiplies to)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  return guarded("rehearse", [&] {
    spec::Job job = options.job.load();
    spec::resolve_layout(job, options.world > 0 ? options.world : world_of(job));
    return options.all ? rehearse_all(job, options) : rehearse_one(job, options);
  });
}

}  // namespace muster::cli
