// The state of one rank as a checkpoint keeps it: tensors by logical name and global place, and counters.
// Whoever holds state registers it in one place (train/state.h); nothing else is saved or restored.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "spec/mesh/piece.h"

namespace muster::checkpoint {

// What a rank holds of a logical tensor. A rank that holds nothing of one registers an empty piece: every
// rank knows every name.
struct StateTensor {
  std::string name;    // "parameters/model.norm.weight"
  spec::Piece piece;   // which of the tensor's elements `local` holds
  at::Tensor local;    // contiguous, in the piece's order; read by a save, filled by a load
  int64_t writer = 0;  // the one rank that writes this piece, of those that hold it
  // Where the elements are not in memory: `local` is a shape without any, and these bring them into a tensor
  // of that shape, and out of one.
  std::function<void(const at::Tensor&)> read = {}, write = {};
};
// The elements in memory: `local`, or a tensor that they were read into.
at::Tensor elements_of(const StateTensor& tensor);

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
