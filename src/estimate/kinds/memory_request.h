// What `muster estimate memory` was asked.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "estimate/kinds/model_options.h"
#include "estimate/kv_cache.h"
#include "estimate/layout_memory.h"

namespace muster::estimate {

struct NamedLayout {
  std::string name;
  Layout layout;
};

struct MemoryRequest {
  ModelRequest named;  // the model as it was named
  MemoryModel model;
  int64_t gpus = 1, gpus_per_node = 8;
  BytesPerParameter bytes;
  std::optional<int64_t> device_bytes;
  std::string device;  // its name, or how it was given
  int64_t reserve_bytes = 0;
  Recompute recompute = Recompute::none;
  bool sequence_parallel = true;
  std::vector<NamedLayout> layouts;  // the strategies, or the one asked for
  bool one_layout = false;
  int64_t suggestions = 0;  // how many; 0: not asked
  bool kv_cache = false;
  int64_t batch = 1, kv_bytes = 2;
  bool explain = false;

  // Layers, hidden, heads and sequence are known, so that activations are.
  bool has_shape() const { return model.layers > 0 && model.shape.heads > 0 && model.shape.sequence > 0; }
  int64_t cache_tensor() const { return one_layout ? layouts[0].layout.tensor : gpus; }
  CacheShape cache_shape() const {
    return {model.layers, model.shape.sequence, named.kv_heads, named.head_dim, kv_bytes};
  }
};

// Reads and checks the whole request; throws UserError with all that is wrong.
MemoryRequest read_memory_request(Options& options);

// A term with its formula, its numbers, and where it is from.
struct Derivation {
  std::string term, formula, numbers, source;
};
std::vector<Derivation> explain_memory(const MemoryRequest& request, const NamedLayout& layout);

}  // namespace muster::estimate
