// Named tensors on disk, of which any elements can be read: published weights (weight_files.h), or those of a
// checkpoint, whatever layout wrote it (set/checkpoint_tensors.h). All of it is untrusted.
#pragma once
#include <filesystem>
#include <memory>
#include <unordered_map>
#include <vector>

#include "checkpoint/deliver.h"

namespace muster::checkpoint {

namespace fs = std::filesystem;

struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::string source;  // the file or folder that holds it, for messages
  int64_t elements() const { return spec::Piece(shape).elements(); }
};

// A tensor of a set, and memory for elements of it.
struct Wanted {
  const StoredTensor* tensor;
  Destination to;
};

class TensorSet {
 public:
  virtual ~TensorSet() = default;

  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(const std::string& name) const;  // null where there is none
  // What was opened, for people: the path, and of a checkpoint its id.
  virtual std::string id() const = 0;
  // Brings to each destination what it holds, converted to its dtype. Memory beside the destinations is
  // bounded, whatever the tensors' sizes. Throws WorldError. For one thread at a time.
  virtual void read(const std::vector<Wanted>& wanted) const = 0;
  void read(const StoredTensor& tensor, const Destination& to) const { read({{&tensor, to}}); }

 protected:
  // False where the name is taken.
  bool add(StoredTensor tensor);
  size_t index_of(const StoredTensor& tensor) const { return static_cast<size_t>(&tensor - tensors_.data()); }

 private:
  std::vector<StoredTensor> tensors_;
  std::unordered_map<std::string, size_t> by_name_;
};

// The weights at `path`: a safetensors file, a Hugging Face folder, or a folder of a checkpoint, of which
// these are the parameters under their own names. Opens and checks headers; reads no data. Throws UserError.
std::unique_ptr<TensorSet> open_weights(const fs::path& path);

}  // namespace muster::checkpoint
