// Published weights on disk as one set of named tensors: a safetensors file, a folder with model.safetensors,
// or a folder with model.safetensors.index.json and the shards that it names. All of it is untrusted.
#pragma once
#include <deque>

#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_set.h"

namespace muster::checkpoint {

// Throws WorldError(data) unless `file` is a regular file of `folder` itself. A link is followed only inside
// the folder, or to the blobs of the Hugging Face cache that the folder is a snapshot of.
void check_own_file(const fs::path& file, const fs::path& folder);

class WeightFiles : public TensorSet {
 public:
  // Opens every file and checks every header; reads no data. Throws UserError with all that is wrong with any
  // of them. What a folder's index names are its own files (check_own_file).
  explicit WeightFiles(const fs::path& path);

  const std::deque<SafetensorsFile>& files() const { return files_; }
  std::string id() const override { return path_.string(); }
  using TensorSet::read;
  void read(const std::vector<Wanted>& wanted) const override;

 private:
  // Where a tensor of the set lies.
  struct Place {
    const SafetensorsFile* file;
    const TensorEntry* entry;
  };
  void open_folder();
  void open_shards(const fs::path& index);
  void index_names();

  fs::path path_;
  std::deque<SafetensorsFile> files_;  // a deque: places point into it
  std::vector<Place> places_;          // of each tensor of the set
};

}  // namespace muster::checkpoint
