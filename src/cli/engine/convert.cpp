// muster convert: weights in and out of Hugging Face's format.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/units.h"
#include "checkpoint/convert.h"
#include "checkpoint/set/checkpoint_tensors.h"
#include "cli/engine/verbs.h"
#include "cli/job_options.h"
#include "cli/verb.h"

namespace muster::cli {
namespace {

struct Request {
  std::string source, target, model;
  std::string dtype = "keep", max_shard_size = "5 GB", rotary = "half-split", fused_qkv = "none";
  bool json = false;
};

void add_options(CLI::App& app, Request& request) {
  app.add_option(
         "SOURCE", request.source,
         "a .safetensors file, a folder with model.safetensors or its index, or a checkpoint's folder")
      ->required();
  app.add_option("TARGET", request.target, "the new folder")->required();
  app.add_option("--model", request.model,
                 "whose weights these are: a config.json, a preset's name or a JOB.toml (default: the "
                 "config.json beside them, or a checkpoint's own job)");
  app.add_option("--dtype", request.dtype, "of what is written")
      ->check(CLI::IsMember({"keep", "float32", "bfloat16", "float16"}))
      ->capture_default_str();
  app.add_option("--max-shard-size", request.max_shard_size, "a larger model is written in shards")
      ->capture_default_str();
  app.add_option(
         "--rotary", request.rotary,
         "order of SOURCE's query and key rows; pairwise (Meta's own files) is turned into half-split")
      ->check(CLI::IsMember({"half-split", "pairwise"}))
      ->capture_default_str();
  app.add_option("--fused-qkv", request.fused_qkv,
                 "read: SOURCE has self_attn.qkv_proj, group by group (q0 q1 k0 v0 q2 q3 k1 v1); write: so "
                 "shall TARGET")
      ->check(CLI::IsMember({"none", "read", "write"}))
      ->capture_default_str();
  app.add_flag("--json", request.json, "one JSON object on stdout");
  app.footer(
      "Examples: muster convert ~/models/Llama-3.2-1B out --dtype float32 --max-shard-size \"2 GB\"\n"
      "          muster convert runs/first/checkpoints/step-00000200.g1 out");
}

spec::ModelSpec model_of(const Request& request) {
  const fs::path source = request.source, named = request.model;
  const fs::path beside = (fs::is_directory(source) ? source : source.parent_path()) / "config.json";
  const bool knows_its_model = fs::exists(beside) || checkpoint::checkpoint_folder(source);
  if (named.empty() && knows_its_model) return checkpoint::read_model(source);
  if (named.empty())
    throw UserError({"--model", "", fmt::format("is needed: there is no {}", beside.string()),
                     "name a config.json, a preset or a JOB.toml"});
  if (named.extension() == ".toml") return spec::load_job(named).model;
  return fs::exists(named) ? checkpoint::read_hf_config(named) : spec::preset(named);
}

std::optional<at::ScalarType> dtype_of(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "float16") return at::kHalf;
  return std::nullopt;
}

// A line on stderr every two seconds.
class Progress {
 public:
  void operator()(int64_t done, int64_t of) {
    const double now = clock_.seconds();
    if (now - last_ < 2 || done == of) return;
    last_ = now;
    log_.info("{} of {} ({:.0f} %), {}/s", format_bytes(done), format_bytes(of),
              100 * static_cast<double>(done) / static_cast<double>(of),
              format_bytes(static_cast<int64_t>(static_cast<double>(done) / (now - start_))));
  }

 private:
  Clock clock_;
  Log log_{"muster convert"};
  double start_ = clock_.seconds(), last_ = start_;
};

checkpoint::ConvertOptions options_of(const Request& request) {
  checkpoint::ConvertOptions options;
  options.dtype = dtype_of(request.dtype);
  if (request.rotary == "pairwise") options.source_rotary = checkpoint::RotaryLayout::pairwise;
  if (request.fused_qkv == "read") options.source_qkv = checkpoint::QkvLayout::fused;
  if (request.fused_qkv == "write") options.qkv = checkpoint::QkvLayout::fused;
  options.save.max_shard_bytes = parse_bytes(request.max_shard_size, "--max-shard-size");
  options.save.on_progress = Progress();
  return options;
}

void report(const Request& request, const spec::ModelSpec& model, const checkpoint::ConvertSummary& summary) {
  const int64_t parameters = spec::ParameterTable(model).elements();
  if (request.json) {
    const Json json = {{"source", request.source},          {"target", request.target},
                       {"family", to_string(model.family)}, {"parameters", parameters},
                       {"tensors", summary.tensors},        {"bytes", summary.bytes}};
    std::printf("%s\n", json.dump().c_str());
    return;
  }
  std::printf("%s: %s, %s parameters in %lld tensors, %s\n", request.target.c_str(),
              to_string(model.family).c_str(), format_exact(parameters).c_str(),
              static_cast<long long>(summary.tensors), format_bytes(summary.bytes).c_str());
  if (request.fused_qkv == "write")
    std::printf("queries, keys and values are fused: transformers does not read this layout\n");
}

}  // namespace

int convert(int argc, char** argv) {
  CLI::App app(
      "Weights in and out of Hugging Face's format; of a checkpoint too, whatever layout saved it. One "
      "tensor "
      "is in memory at a time.",
      "muster convert");
  Request request;
  add_options(app, request);
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  return guarded("convert", [&] {
    const checkpoint::ConvertOptions options = options_of(request);
    const spec::ModelSpec model = model_of(request);
    report(request, model, checkpoint::convert_weights(request.source, request.target, model, options));
    return 0;
  });
}

}  // namespace muster::cli
