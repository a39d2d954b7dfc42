#include "base/error.h"
#include "checkpoint/compare.h"
#include "checkpoint/hugging_face.h"
#include "checkpoint/set/checkpoint_tensors.h"

namespace muster::checkpoint {

spec::ModelSpec read_hf_config(const fs::path& where) {
  const fs::path path = fs::is_directory(where) ? where / "config.json" : where;
  if (!fs::is_regular_file(path))
    throw UserError({"config", path.string(), "there is no such file",
                     "give the config.json that came with the weights"});
  constexpr int64_t kMostBytes = int64_t{1} << 20;
  try {
    return spec::from_hf_config(read_text(path, kMostBytes), path.string());
  } catch (const WorldError& error) {
    throw UserError({"config", path.string(), error.what(), "copy or download it again"});
  }
}

spec::ModelSpec read_model(const fs::path& weights) {
  if (const auto folder = checkpoint_folder(weights)) {
    const CheckpointTensors checkpoint(*folder, CheckpointTensors::Which::weights);
    return job_of(checkpoint.manifest(), folder->string()).model;
  }
  return read_hf_config(fs::is_directory(weights) ? weights : weights.parent_path());
}

void check_weights(const fs::path& path, const spec::ParameterTable& table) {
  match_weights(*open_weights(path), expected_tensors(table));
}

void check_tied_head(const TensorSet& weights, const WeightMatch& match) {
  if (!match.tied_head) return;
  if (!are_same({weights, *match.tied_head}, {weights, *match.embedding}))
    throw UserError({match.tied_head->source + ": " + match.tied_head->name, "",
                     "differs from the embedding, to which this model ties it",
                     "set model.tie_word_embeddings = false, or remove the tensor"});
}

std::string load_weights(const fs::path& path, const spec::ParameterTable& table,
                         const DestinationOf& destination_of) {
  const auto weights = open_weights(path);
  const WeightMatch match = match_weights(*weights, expected_tensors(table));
  check_tied_head(*weights, match);
  std::vector<Wanted> wanted;
  for (size_t i = 0; i < match.found.size(); ++i)
    if (auto to = destination_of(table.rows()[i])) wanted.push_back({match.found[i], std::move(*to)});
  weights->read(wanted);
  return weights->id();
}

}  // namespace muster::checkpoint
