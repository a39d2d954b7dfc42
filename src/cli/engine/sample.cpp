// muster sample RUN: text out of a run's weights, or of imported ones.
#include <ATen/Parallel.h>

#include <cstdio>

#include "base/error.h"
#include "checkpoint/hugging_face.h"
#include "checkpoint/set/checkpoint_tensors.h"
#include "cli/engine/verbs.h"
#include "cli/job_options.h"
#include "cli/verb.h"
#include "data/tokenizer/tokenizer.h"
#include "train/generate.h"
#include "train/run_folder.h"

namespace muster::cli {
namespace {

constexpr const char* kHelp =
    "Continues a prompt with the weights of a run, of one of its checkpoints, or of a Hugging Face "
    "folder.\n\n"
    "  muster sample runs/demo-001 --prompt \"In the beginning\"\n"
    "  muster sample runs/demo-001/checkpoints/step-00000200.g1 --prompt \"In the beginning\"\n"
    "  muster sample gpt2/ --prompt \"Once\" --tokens 50 --temperature 0";

struct Options {
  std::string source, prompt, tokenizer;
  int64_t context = 0, threads = 0;
  bool json = false;
  train::SamplingOptions sampling;
};

// Where the weights lie and what reads their text.
struct Source {
  fs::path weights;
  std::string tokenizer;
  int64_t context = 0;

  void complete_from(const spec::Job& job) {
    if (tokenizer.empty()) tokenizer = job.data.tokenizer;
    if (context == 0) context = job.data.sequence_length;
  }
};

Source find_source(const Options& options) {
  if (!fs::is_directory(options.source))
    throw UserError({"RUN", options.source, "is not a folder",
                     "name a run's folder, a checkpoint's, or one with config.json and weights"});
  const train::RunFolder run{options.source};
  Source source{run.path, options.tokenizer, options.context};
  if (fs::exists(run.job())) {
    source.weights = run.weights();
    source.complete_from(spec::load_job(run.job().string()));
    if (!fs::exists(source.weights))
      throw UserError({"RUN", options.source, "has no weights yet",
                       "wait for the end of the run, or name one of its checkpoints"});
  } else if (const auto folder = checkpoint::checkpoint_folder(run.path)) {
    const checkpoint::CheckpointTensors set(*folder, checkpoint::CheckpointTensors::Which::weights);
    source.complete_from(checkpoint::job_of(set.manifest(), folder->string()));
  }
  if (source.tokenizer.empty() && fs::exists(source.weights / "tokenizer.json"))
    source.tokenizer = (source.weights / "tokenizer.json").string();
  if (source.tokenizer.empty())
    throw UserError({"--tokenizer", "", "is needed: " + source.weights.string() + " has no tokenizer.json",
                     "name a tokenizer.json, or \"bytes\""});
  return source;
}

// A model on one process with its weights loaded.
struct Loaded {
  spec::ModelSpec spec;
  spec::ParameterTable table;
  spec::Mesh mesh{{1, 1, 1, 1, 1},
                  {spec::Axis::tensor, spec::Axis::context, spec::Axis::data, spec::Axis::pipeline}};
  Clock clock;
  nn::Executor run{at::kCPU, at::kFloat, clock};
  nn::ParameterStore parameters;
  nn::Transformer model;

  Loaded(const fs::path& weights, int64_t context)
      : spec(checkpoint::read_model(weights)),
        table(spec),
        parameters(table, mesh, run, 1),
        model(spec, {}, {}, parameters, run,
              {.length = context > 0 ? context : spec.max_position_embeddings}) {
    checkpoint::load_weights(weights, table, [&](const spec::ParameterRow& row) {
      return checkpoint::Destination{parameters.value(table.row(row.name))};
    });
  }
};

int sample_text(const Options& options) {
  const Source source = find_source(options);
  const auto tokenizer = data::load_tokenizer(source.tokenizer);
  std::vector<int32_t> ids;
  if (const auto begin = tokenizer->begin_of_text()) ids.push_back(*begin);
  tokenizer->encoder()->encode(options.prompt, ids);
  if (ids.empty())
    throw UserError(
        {"--prompt", options.prompt, "must give at least one token", "write something to continue"});
  Loaded loaded(source.weights, source.context);
  if (tokenizer->vocabulary() > loaded.spec.vocab_size)
    throw UserError({"--tokenizer", source.tokenizer,
                     fmt::format("gives ids up to {}, and the model has {}", tokenizer->vocabulary() - 1,
                                 loaded.spec.vocab_size),
                     "name the tokenizer that the model was trained with"});
  const int64_t context = source.context > 0 ? source.context : loaded.spec.max_position_embeddings;
  if (!options.json) std::fputs(options.prompt.c_str(), stdout);
  std::vector<int32_t> out;
  train::generate(loaded.run, loaded.model, ids, context, options.sampling, [&](int32_t id) {
    if (tokenizer->end_of_text() == id || id >= tokenizer->vocabulary()) return false;
    out.push_back(id);
    if (!options.json) std::fputs(tokenizer->decode(std::span(&id, 1)).c_str(), stdout);
    std::fflush(stdout);
    return true;
  });
  if (options.json)
    std::printf("%s\n", Json{{"prompt", options.prompt}, {"ids", out}, {"text", tokenizer->decode(out)}}
                            .dump(1, ' ', false, Json::error_handler_t::replace)
                            .c_str());
  else
    std::printf("\n");
  return 0;
}

}  // namespace

int sample(int argc, char** argv) {
  Options options;
  CLI::App app(kHelp, "muster sample");
  app.add_option("RUN", options.source,
                 "a run's folder, a checkpoint's, or one with config.json and safetensors")
      ->required();
  app.add_option("--prompt", options.prompt, "what to continue")->required();
  app.add_option("--tokens", options.sampling.tokens, "how many to add")->capture_default_str();
  app.add_option("--temperature", options.sampling.temperature, "0: always the likeliest")
      ->capture_default_str();
  app.add_option("--top-k", options.sampling.top_k, "of the K likeliest (0: all)")->capture_default_str();
  app.add_option("--top-p", options.sampling.top_p, "of the likeliest with this share")
      ->capture_default_str();
  app.add_option("--seed", options.sampling.seed, "of the draws")->capture_default_str();
  app.add_option("--tokenizer", options.tokenizer, "a tokenizer.json or \"bytes\" (default: the run's)");
  app.add_option("--context", options.context, "ids that the model sees at most (default: the run's)");
  app.add_flag("--json", options.json, "one JSON object on stdout");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  return guarded("sample", [&] { return sample_text(options); });
}

}  // namespace muster::cli
