// Two tensors on disk, element by element, a window at a time: whatever pieces their files cut them into.
#pragma once
#include "checkpoint/tensor_set.h"

namespace muster::checkpoint {

// A tensor of a set.
struct TensorOf {
  const TensorSet& set;
  const StoredTensor& tensor;
};

struct TensorDifference {
  int64_t differing = 0;       // elements
  double max_absolute = 0;     // |a - b|; infinite where one of the two is no number or infinite
  double max_relative = 0;     // |a - b| / max(|a|, |b|)
  std::vector<int64_t> first;  // index of the first that differs, one number a dim; empty: none does
};

// Both of one shape. Of one dtype, elements are alike where their bits are; of two dtypes, where their values
// are. Memory: two windows of kStagingBytes at most, and what comparing them takes.
TensorDifference compare(const TensorOf& a, const TensorOf& b);

// Whether dtype, shape and every bit are the same.
bool are_same(const TensorOf& a, const TensorOf& b);

}  // namespace muster::checkpoint
