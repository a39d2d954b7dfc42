// Weights on disk as one set of named tensors: a safetensors file, a folder with model.safetensors, or a
// folder with model.safetensors.index.json and the shards that it names. All of it is untrusted.
#pragma once
#include <deque>
#include <optional>
#include <unordered_map>

#include "checkpoint/safetensors.h"

namespace muster::checkpoint {

// Throws WorldError(data) unless `file` is a regular file of `folder` itself. A link is followed only inside
// the folder, or to the blobs of the Hugging Face cache that the folder is a snapshot of.
void check_own_file(const fs::path& file, const fs::path& folder);

class WeightFiles {
 public:
  // Opens every file and checks every header; reads no data. Throws UserError with all that is wrong with any
  // of them. What a folder's index names are its own files (check_own_file).
  explicit WeightFiles(const fs::path& path);

  struct Found {
    const SafetensorsFile* file;
    const TensorEntry* tensor;
  };
  std::optional<Found> find(const std::string& name) const;
  const std::deque<SafetensorsFile>& files() const { return files_; }
  const fs::path& path() const { return path_; }

 private:
  void open_folder();
  void open_shards(const fs::path& index);
  void index_names();

  fs::path path_;
  std::deque<SafetensorsFile> files_;  // a deque: entries point into it
  std::unordered_map<std::string_view, Found> by_name_;
};

}  // namespace muster::checkpoint
