#include <unistd.h>

#include "base/error.h"
#include "checkpoint/hugging_face.h"
#include "checkpoint/weight_index.h"

namespace muster::checkpoint {
namespace {

TensorEntry to_entry(const OutgoingTensor& tensor) {
  return {.name = tensor.name, .dtype = to_dtype(tensor.dtype), .shape = tensor.shape, .begin = 0, .end = 0};
}

int64_t bytes_of(const OutgoingTensor& tensor) {
  return checked_bytes(to_entry(tensor), "export");
}

using Shard = std::vector<const OutgoingTensor*>;

// In order; a shard ends where the next tensor would take it past `most_bytes`.
std::vector<Shard> into_shards(const std::vector<OutgoingTensor>& tensors, int64_t most_bytes) {
  std::vector<Shard> shards(1);
  int64_t filled = 0;
  for (const OutgoingTensor& tensor : tensors) {
    const int64_t bytes = bytes_of(tensor);
    if (!shards.back().empty() && filled + bytes > most_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(&tensor);
    filled += bytes;
  }
  return shards;
}

std::string shard_name(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

class Export {
 public:
  Export(const std::vector<OutgoingTensor>& tensors, const SaveOptions& options)
      : options_(options), shards_(into_shards(tensors, options.max_shard_bytes)) {
    for (const OutgoingTensor& tensor : tensors) total_bytes_ += bytes_of(tensor);
  }

  void write_into(const fs::path& folder) {
    WeightIndex index;
    for (size_t i = 0; i < shards_.size(); ++i) {
      const std::string name = shard_name(i, shards_.size());
      write_shard(folder / name, shards_[i]);
      for (const OutgoingTensor* tensor : shards_[i]) index.files_by_tensor.emplace_back(tensor->name, name);
    }
    if (shards_.size() > 1)
      write_text(folder / "model.safetensors.index.json", weight_index_text(index, total_bytes_));
  }

 private:
  void write_shard(const fs::path& path, const Shard& shard) {
    std::map<std::string, const OutgoingTensor*> by_name;
    std::vector<TensorEntry> entries;
    for (const OutgoingTensor* tensor : shard) {
      by_name[tensor->name] = tensor;
      entries.push_back(to_entry(*tensor));
    }
    Metadata metadata = options_.metadata;
    metadata["format"] = "pt";  // transformers refuses a file that does not say so
    SafetensorsWriter writer(path, std::move(entries), metadata);
    for (const TensorEntry& entry : writer.tensors()) write_one(writer, *by_name.at(entry.name));
    writer.finish();
  }

  void write_one(SafetensorsWriter& writer, const OutgoingTensor& tensor) {
    const at::Tensor data = tensor.data();
    MUSTER_CHECK(data.sizes() == at::IntArrayRef(tensor.shape), "{} came in another shape", tensor.name);
    write_tensor(writer, data, tensor.dtype);
    done_bytes_ += bytes_of(tensor);
    if (options_.on_progress) options_.on_progress(done_bytes_, total_bytes_);
  }

  const SaveOptions& options_;
  std::vector<Shard> shards_;
  int64_t total_bytes_ = 0, done_bytes_ = 0;
};

// A folder beside the one that is to appear, removed unless it was put in its place.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& target) : target_(without_slash(fs::absolute(target))) {
    beside_ = target_.string() + fmt::format(".new-{}", ::getpid());
    fs::create_directories(beside_);
  }
  ~NewFolder() {
    std::error_code ignored;
    fs::remove_all(beside_, ignored);
  }
  const fs::path& path() const { return beside_; }
  void put_in_place() {
    sync_folder(beside_);
    fs::rename(beside_, target_);
    sync_folder(target_.parent_path());
  }

 private:
  static fs::path without_slash(const fs::path& path) {
    return path.has_filename() ? path : path.parent_path();
  }
  fs::path target_, beside_;
};

// transformers' name of the dtype that the matrices have.
std::string hf_dtype(const std::vector<OutgoingTensor>& tensors) {
  for (const auto& [type, name] : {std::pair(at::kBFloat16, "bfloat16"), std::pair(at::kHalf, "float16"),
                                   std::pair(at::kDouble, "float64")})
    if (!tensors.empty() && tensors.front().dtype == type) return name;
  return "float32";
}

}  // namespace

void check_new_folder(const fs::path& folder) {
  if (fs::exists(folder) && (!fs::is_directory(folder) || !fs::is_empty(folder)))
    throw UserError({"folder", folder.string(), "is there already", "give a new folder, or remove this one"});
}

void save_weights(const fs::path& folder, const spec::ModelSpec& model,
                  const std::vector<OutgoingTensor>& tensors, const SaveOptions& options) {
  check_new_folder(folder);
  NewFolder fresh(folder);
  Export(tensors, options).write_into(fresh.path());
  write_text(fresh.path() / "config.json", spec::to_hf_config(model, hf_dtype(tensors)));
  for (const fs::path& file : options.companions) fs::copy_file(file, fresh.path() / file.filename());
  fresh.put_in_place();
}

void save_weights(const fs::path& folder, const spec::ModelSpec& model, at::ScalarType dtype,
                  const std::function<at::Tensor(const spec::ParameterRow&)>& data,
                  const SaveOptions& options) {
  const spec::ParameterTable table(model);
  std::vector<OutgoingTensor> tensors;
  for (const spec::ParameterRow& row : table.rows())
    tensors.push_back({row.name, row.shape, dtype, [&data, &row] { return data(row); }});
  save_weights(folder, model, tensors, options);
}

}  // namespace muster::checkpoint
