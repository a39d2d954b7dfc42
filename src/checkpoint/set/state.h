// The state of one rank as a checkpoint keeps it: tensors by logical name and global place, and counters.
// Whoever holds state registers it in one place (train/state.h); nothing else is saved or restored.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace muster::checkpoint {

// A rank's part of a logical tensor.
struct StateTensor {
  std::string name;            // "parameters/model.norm.weight"
  std::vector<int64_t> shape;  // global
  std::vector<int64_t> start;  // where `local` begins in it, an index a dim
  at::Tensor local;            // contiguous; read by a save, filled by a load
  int64_t writer = 0;          // the one rank that writes this part, of those that hold it
};

struct StateCounter {
  std::string name;
  std::function<int64_t()> get;
  std::function<void(int64_t)> set;
};

struct State {
  std::vector<StateTensor> tensors;
  std::vector<StateCounter> counters;
};

}  // namespace muster::checkpoint
