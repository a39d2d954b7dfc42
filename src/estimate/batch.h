// global = data * accumulation * micro, in sequences.
#pragma once
#include <cstdint>
#include <optional>

namespace muster::estimate {

struct BatchRequest {
  std::optional<int64_t> global, data, accumulation, micro;
};

struct Batch {
  int64_t global = 1, data = 1, accumulation = 1, micro = 1;
};

// Derives the one that is missing, or checks all four. Throws UserError where two or more are missing, where
// the missing one would not be whole (naming the nearest global batches), or where they do not agree (naming
// the product).
Batch complete_batch(const BatchRequest& request);

}  // namespace muster::estimate
