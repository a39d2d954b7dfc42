#include "checkpoint/tensor_set.h"

#include "checkpoint/set/checkpoint_tensors.h"
#include "checkpoint/weight_files.h"

namespace muster::checkpoint {

const StoredTensor* TensorSet::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

bool TensorSet::add(StoredTensor tensor) {
  if (!by_name_.try_emplace(tensor.name, tensors_.size()).second) return false;
  tensors_.push_back(std::move(tensor));
  return true;
}

std::unique_ptr<TensorSet> open_weights(const fs::path& path) {
  if (const auto folder = checkpoint_folder(path))
    return std::make_unique<CheckpointTensors>(*folder, CheckpointTensors::Which::weights);
  return std::make_unique<WeightFiles>(path);
}

}  // namespace muster::checkpoint
