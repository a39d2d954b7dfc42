// One rank's part of an all-reduce among ranks of one host: it reads the others' values of its part, a chunk
// at a time, and reduces them in rank order, as reduce_scatter does; 16-bit floats in fp32.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "comm/communicator.h"

namespace muster::comm {

class Sum {
 public:
  // `part`: this rank's, flat and contiguous, and what it becomes.
  Sum(at::Tensor part, Reduce op);

  // Elements [begin, begin + chunk_elements()) of the part, or up to its end: add the values of ranks 0, 1,
  // ... in this order, this rank's own with null; then store.
  int64_t chunk_elements() const { return chunk_; }
  int64_t elements() const { return part_.numel(); }
  int64_t element_bytes() const { return static_cast<int64_t>(part_.element_size()); }
  void add(int64_t begin, int64_t count, int64_t rank, const void* values);
  void store(int64_t begin, int64_t count);
  // Room for a chunk of another rank's values.
  void* room() { return room_.data(); }

 private:
  at::Tensor part_;
  Reduce op_;
  int64_t chunk_;
  std::vector<char> room_, sum_;
};

}  // namespace muster::comm
