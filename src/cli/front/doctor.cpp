// `muster doctor`: checks a job and shows what it comes to: each value with where it came from, and who talks
// to whom. Prints the manual of the keys, and the presets.
#include <cstdio>

#include "base/error.h"
#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "cli/front/verbs.h"
#include "cli/front/who_talks.h"
#include "cli/job_options.h"
#include "cli/verb.h"
#include "data/dataset.h"
#include "spec/config/value.h"
#include "spec/mesh/mesh.h"
#include "spec/model/parameter_table.h"

namespace muster::cli {
namespace {

struct Options {
  JobOptions job;
  int64_t ranks = 0;
  bool keys = false;
  bool presets = false;
};

// Without --procs, the smallest world that the layout names.
int64_t world_size(const Options& options, const spec::LayoutConfig& layout) {
  if (options.ranks > 0) return options.ranks;
  return std::max<int64_t>(layout.data, 1) * layout.tensor * layout.context * layout.pipeline;
}

// The groups along an axis, each once, in order of their first rank.
std::vector<std::vector<int64_t>> groups(const spec::Mesh& mesh, spec::Axis axis) {
  std::vector<std::vector<int64_t>> all;
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank)
    if (mesh.coordinate(rank, axis) == 0) all.push_back(mesh.group(rank, axis));
  return all;
}

Json settings_json(spec::Job& job) {
  Json sections;
  for (const spec::Field& field : spec::fields())
    if (field.in)
      sections[std::string(field.section)][std::string(field.key)] = {{"value", to_json(field, job)},
                                                                      {"origin", job.origins[field.name()]}};
  return sections;
}

// {"job", "settings": {section: {key: {value, origin}}}, "parameters", "micro_batches", "tokens_per_step",
//  "world_size", "mesh": [{"axis", "size", "groups"}], "talks": who_talks.h}, the axes innermost first.
Json as_json(spec::Job& job, const spec::Mesh& mesh, const spec::Hardware& hardware) {
  Json axes = Json::array();
  for (spec::Axis axis : mesh.order())
    axes.push_back({{"axis", to_string(axis)}, {"size", mesh.size(axis)}, {"groups", groups(mesh, axis)}});
  return {{"job", job.path},
          {"settings", settings_json(job)},
          {"parameters", spec::ParameterTable(job.model).elements()},
          {"micro_batches", micro_batches(job)},
          {"tokens_per_step", job.training.global_batch_size * job.data.sequence_length},
          {"world_size", mesh.world_size()},
          {"mesh", axes},
          {"talks", to_json(who_talks(mesh, hardware), estimate::step_messages(job))}};
}

// Payload on one rank (estimate/step_messages.h), over the links of the hardware file.
void print_mesh(const spec::Job& job, const spec::Mesh& mesh, const spec::Hardware& hardware) {
  fmt::print("\nwho talks to whom, innermost first; links of {}\n{}", hardware.name,
             picture(who_talks(mesh, hardware), estimate::step_messages(job)));
}

void print_job(const spec::Job& job, const spec::Mesh& mesh, const spec::Hardware& hardware) {
  fmt::print("{}\n{} parameters; {} ranks; {} micro-batches of {} on each; {} tokens a step\n",
             effective_toml(job), format_exact(spec::ParameterTable(job.model).elements()), mesh.world_size(),
             micro_batches(job), job.training.micro_batch_size,
             format_exact(job.training.global_batch_size * job.data.sequence_length));
  print_mesh(job, mesh, hardware);
}

int print_presets() {
  Table table({"preset", "parameters"});
  for (const std::string& name : spec::preset_names())
    table.add({name, format_exact(spec::ParameterTable(spec::preset(name)).elements())});
  fmt::print("{}", table.text());
  return 0;
}

int run(const Options& options) {
  if (options.keys) return fmt::print("{}", spec::keys_markdown()), 0;
  if (options.presets) return print_presets();
  spec::Job job = options.job.load();
  Problems problems;
  problems.gather([&] { resolve_layout(job, world_size(options, job.layout)); });
  if (!job.data.path.empty() || !job.data.sources.empty()) data::check(job, problems);
  spec::Hardware hardware;
  problems.gather([&] { hardware = spec::load_hardware(job.hardware.name); });
  problems.throw_if_any();
  const spec::Mesh mesh = make_mesh(job.layout);
  if (options.job.json)
    fmt::print("{}\n", as_json(job, mesh, hardware).dump());
  else
    print_job(job, mesh, hardware);
  return 0;
}

}  // namespace

int doctor(int argc, char** argv) {
  CLI::App app(
      "Checks a job and prints what it comes to: every value with where it came from, and the mesh.\n"
      "Example: muster doctor configs/jobs/demo.toml --procs 2 --set training.steps=100",
      "muster doctor");
  Options options;
  add_job_options(app, options.job, /*is_required=*/false);
  app.add_option("--procs", options.ranks, "ranks of the world; without it, as many as the layout names")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  auto* keys =
      app.add_flag("--keys", options.keys, "print docs/job.md: every key with type, default and meaning");
  auto* presets = app.add_flag("--presets", options.presets, "print the models that model.preset names");
  keys->excludes(presets);
  for (const char* other : {"JOB", "--set", "--json", "--procs"}) {
    keys->excludes(app.get_option(other));
    presets->excludes(app.get_option(other));
  }
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  return guarded("doctor", [&] {
    if (options.job.path.empty() && !options.keys && !options.presets)
      throw UserError({"JOB", "", "is missing", "give a job, --keys or --presets; --help explains"});
    return run(options);
  });
}

}  // namespace muster::cli
