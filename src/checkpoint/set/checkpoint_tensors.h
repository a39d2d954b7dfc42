// A committed checkpoint as named tensors.
#pragma once
#include "checkpoint/set/catalog.h"
#include "checkpoint/set/set_reader.h"
#include "checkpoint/tensor_set.h"
#include "spec/config/job.h"

namespace muster::checkpoint {

// `path` without a slash at its end, where it is a folder of a checkpoint: one that is named so, or holds a
// manifest.
std::optional<fs::path> checkpoint_folder(const fs::path& path);

// The job that the run had which saved it, as far as a replay depends on it. Throws UserError where a key or
// a value is none of this program's.
spec::Job job_of(const Manifest& manifest, const std::string& source);

class CheckpointTensors : public TensorSet {
 public:
  // `all`: every tensor of the state by its name there, "optimizer.first/model.norm.weight". `weights`: the
  // parameters by their own names, each from its master parameter where the run kept one.
  enum class Which { all, weights };
  // Throws UserError where it is damaged.
  CheckpointTensors(const fs::path& folder, Which which);

  const Manifest& manifest() const { return opened_.manifest; }
  // "runs/first/checkpoints/step-00000200.g1 (manifest 0123456789abcdef)"
  std::string id() const override;
  using TensorSet::read;
  // Every byte is verified before it is used.
  void read(const std::vector<Wanted>& wanted) const override;

 private:
  void add_source(const std::string& name, const ManifestTensor& tensor);
  fs::path folder_;
  Opened opened_;
  std::vector<const ManifestTensor*> sources_;  // of each tensor of the set
  mutable SetReader reader_;
};

}  // namespace muster::checkpoint
