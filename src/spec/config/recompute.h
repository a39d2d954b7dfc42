// `layout.recompute` as read: which layers compute their forward pass again in backward instead of keeping
// it.
#pragma once
#include <cstdint>
#include <string>

namespace muster::spec {

struct Recompute {
  enum class Kind {
    none,
    selective,  // every layer's attention core again (Korthikanti et al. 2022, section 5)
    full,       // every layer from its input (Chen et al. 2016)
    every,      // layers 0, K, 2K, ... from their inputs
    budget      // as little as keeps the layers within so many bytes
  };
  Kind kind = Kind::none;
  int64_t every = 1;
  int64_t budget_bytes = 0;  // of what all layers of a rank keep, for all micro-batches in flight
};

// "none", "selective", "full", "every:2", "budget:10GiB". Throws UserError naming layout.recompute.
Recompute parse_recompute(const std::string& text);

}  // namespace muster::spec
