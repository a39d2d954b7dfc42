// muster inspect RUN_OR_CHECKPOINT [OTHER]: what checkpoints there are, whether one is whole, and what two of
// them have in common.
#include <cstdio>

#include "base/error.h"
#include "base/table.h"
#include "base/units.h"
#include "checkpoint/set/catalog.h"
#include "cli/engine/compare_weights.h"
#include "cli/engine/verbs.h"
#include "cli/job_options.h"
#include "cli/verb.h"
#include "train/run_folder.h"

namespace muster::cli {
namespace {

constexpr const char* kHelp =
    "Lists the checkpoints of a run; or reads every byte of one and says whether it is whole; or compares "
    "two "
    "of them, or one with a Hugging Face folder, tensor by tensor, whatever layouts wrote them.\n\n"
    "  muster inspect runs/first\n"
    "  muster inspect runs/first/checkpoints/step-00000020.g1 --tensors\n"
    "  muster inspect runs/first/checkpoints/step-00000020.g1 runs/other/checkpoints/step-00000020.g1\n\n"
    "Status of a comparison: 0 where the states are equal, 1 where they differ or one cannot be read, 2 for "
    "a "
    "wrong request.";

struct Options {
  std::string path, other;
  bool tensors = false, json = false;
};

// {"name", "step", "generation", "standing", "reason", "bytes", "files", "world", "next_sample"}
Json to_json(const checkpoint::Listed& listed) {
  Json json = {{"name", to_string(listed.name)},
               {"step", listed.name.step},
               {"generation", listed.name.generation},
               {"standing", to_string(listed.standing)},
               {"reason", listed.reason},
               {"bytes", nullptr},
               {"files", nullptr},
               {"world", nullptr},
               {"next_sample", nullptr}};
  if (!listed.opened) return json;
  const checkpoint::Manifest& manifest = listed.opened->manifest;
  json["bytes"] = manifest.bytes();
  json["files"] = manifest.files.size();
  json["world"] = manifest.world;
  json["next_sample"] = manifest.next_sample;
  return json;
}

// Text from a file may hold anything.
void print(const Json& json) {
  std::printf("%s\n", json.dump(1, ' ', false, Json::error_handler_t::replace).c_str());
}

// {"checkpoints": [...]}, newest first. Contents are not read.
int list(const fs::path& run, const Options& options) {
  const auto all = checkpoint::list_checkpoints(train::RunFolder{run}.checkpoints(), Log());
  Json json = Json::array();
  Table table({"checkpoint", "step", "standing", "size", "ranks", "reason"});
  for (const checkpoint::Listed& listed : all) {
    json.push_back(to_json(listed));
    const auto& opened = listed.opened;
    table.add({to_string(listed.name), std::to_string(listed.name.step), to_string(listed.standing),
               opened ? format_bytes(opened->manifest.bytes()) : "unknown",
               opened ? std::to_string(opened->manifest.world) : "unknown", listed.reason});
  }
  if (options.json)
    print({{"checkpoints", json}});
  else
    std::printf("%s", all.empty() ? "no checkpoints\n" : table.text().c_str());
  if (!options.json && !all.empty())
    std::printf("manifests and sizes were read, contents not: muster inspect %s reads every byte of one\n",
                (train::RunFolder{run}.checkpoints() / to_string(all.front().name)).c_str());
  return 0;
}

void print_tensors(const checkpoint::Manifest& manifest) {
  Table table({"tensor", "dtype", "shape", "pieces"});
  for (const checkpoint::ManifestTensor& tensor : manifest.tensors)
    table.add({tensor.name, std::string(to_string(tensor.dtype)), Json(tensor.shape).dump(),
               std::to_string(tensor.pieces.size())});
  std::printf("%s", table.text().c_str());
}

// The manifest without its lists, "valid" and "reason"; with --tensors the lists too.
int check(const fs::path& folder, const Options& options) {
  std::string reason;
  std::optional<checkpoint::Opened> opened;
  try {
    opened = checkpoint::open_checkpoint(folder);
    checkpoint::verify_contents(folder, opened->manifest);
  } catch (const WorldError& error) {
    reason = error.what();
  }
  Json json = opened ? to_json(opened->manifest) : Json::object();
  if (!options.tensors || options.json == false)
    for (const char* list : {"tensors", "files"}) json.erase(list);
  json["valid"] = reason.empty();
  json["reason"] = reason;
  print(json);
  if (opened && options.tensors && !options.json) print_tensors(opened->manifest);
  return reason.empty() ? 0 : 1;
}

int compare(const Options& options) {
  const Json comparison = compare_weights(options.path, options.other);
  if (options.json)
    print(comparison);
  else
    std::printf("%s", comparison_text(comparison).c_str());
  return comparison.at("equal") ? 0 : 1;
}

int run(const Options& options) {
  if (!options.other.empty()) return compare(options);
  const fs::path path =
      fs::path(options.path).has_filename() ? fs::path(options.path) : fs::path(options.path).parent_path();
  if (!fs::is_directory(path))
    throw UserError(
        {"RUN_OR_CHECKPOINT", options.path, "is no folder", "name a run's folder, or a checkpoint's"});
  return checkpoint::parse_set_name(path.filename().string()) ? check(path, options) : list(path, options);
}

}  // namespace

int inspect(int argc, char** argv) {
  CLI::App app(kHelp, "muster inspect");
  Options options;
  app.add_option("RUN_OR_CHECKPOINT", options.path, "a run's folder, or one of its checkpoints")->required();
  CLI::Option* other = app.add_option("OTHER", options.other,
                                      "what to compare it with: a checkpoint or a Hugging Face folder");
  app.add_flag("--tensors", options.tensors, "every tensor of a checkpoint, with its shape and pieces")
      ->excludes(other);
  app.add_flag("--json", options.json, "one JSON object on stdout");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  return guarded("inspect", [&] { return run(options); });
}

}  // namespace muster::cli
