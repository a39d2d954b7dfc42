// Weights in and out of folders as Hugging Face keeps them: config.json, and model.safetensors or shards with
// an index. Names are Hugging Face's, which are the parameter table's. In, a checkpoint of a run serves too.
#pragma once
#include <functional>

#include "checkpoint/tensor_io.h"
#include "checkpoint/weight_match.h"

namespace muster::checkpoint {

// ---- in ----

// The model that a config.json describes; `path` is the file or its folder. Throws UserError.
spec::ModelSpec read_hf_config(const fs::path& path);
// The model of these weights: by the config.json beside them, or of a checkpoint by its run's job. Throws
// UserError.
spec::ModelSpec read_model(const fs::path& weights);

// Everything about the weights at `path` (open_weights) that their headers tell: files, names, shapes, types.
// Throws one UserError. For before any process exists; costs no more than opening the files.
void check_weights(const fs::path& path, const spec::ParameterTable& table);

// Reads of each parameter what `destination_of` says is held here, and converts it to the dtype found there;
// no destination, no reading. Memory beside the destinations is bounded (tensor_io.h, set/set_reader.h).
// Checks as check_weights does, and that a stored head of a tied model equals its embedding. Returns what was
// really read, for people (TensorSet::id).
using DestinationOf = std::function<std::optional<Destination>(const spec::ParameterRow&)>;
std::string load_weights(const fs::path& path, const spec::ParameterTable& table,
                         const DestinationOf& destination_of);
// The part of it after matching: for those who read more than a table.
void check_tied_head(const TensorSet& weights, const WeightMatch& match);

// ---- out ----

// A tensor that will be written: what the header says of it now, and its data when its turn comes.
struct OutgoingTensor {
  std::string name;
  std::vector<int64_t> shape;
  at::ScalarType dtype;
  std::function<at::Tensor()> data;
};

struct SaveOptions {
  int64_t max_shard_bytes = 5'000'000'000;
  Metadata metadata{};                                                   // beside {"format": "pt"}
  std::vector<fs::path> companions{};                                    // files copied as they are
  std::function<void(int64_t bytes_done, int64_t bytes)> on_progress{};  // after each tensor
};

// Throws UserError unless `folder` is absent or empty.
void check_new_folder(const fs::path& folder);

// Writes a folder that transformers reads: config.json of `model` and `tensors` in shards of at most
// max_shard_bytes (one tensor may be larger). One tensor is in memory at a time. The folder appears whole, on
// the disk, or not at all.
void save_weights(const fs::path& folder, const spec::ModelSpec& model,
                  const std::vector<OutgoingTensor>& tensors, const SaveOptions& options = {});
// The same for a table's parameters, in one dtype.
void save_weights(const fs::path& folder, const spec::ModelSpec& model, at::ScalarType dtype,
                  const std::function<at::Tensor(const spec::ParameterRow&)>& data,
                  const SaveOptions& options = {});

}  // namespace muster::checkpoint
