#include "base/error.h"
#include "checkpoint/hugging_face.h"

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

void check_weights(const fs::path& path, const spec::ParameterTable& table) {
  match_weights(WeightFiles(path), expected_tensors(table));
}

void check_tied_head(const WeightMatch& match) {
  if (!match.tied_head) return;
  const auto &head = *match.tied_head, &embedding = *match.embedding;
  if (!same_bytes(*head.file, *head.tensor, *embedding.file, *embedding.tensor))
    throw UserError({head.file->path().string() + ": " + head.tensor->name, "",
                     "differs from the embedding, to which this model ties it",
                     "set model.tie_word_embeddings = false, or remove the tensor"});
}

void load_weights(const fs::path& path, const spec::ParameterTable& table,
                  const DestinationOf& destination_of) {
  const WeightFiles files(path);
  const WeightMatch match = match_weights(files, expected_tensors(table));
  check_tied_head(match);
  for (size_t i = 0; i < match.found.size(); ++i)
    if (const auto to = destination_of(table.rows()[i]))
      read_tensor(*match.found[i].file, *match.found[i].tensor, *to);
}

}  // namespace muster::checkpoint
