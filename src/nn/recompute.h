// What a layer keeps between its forward and its backward pass; backward computes the rest again, the same
// bits.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "spec/config/recompute.h"

namespace muster::nn {

enum class Keep {
  all,
  all_but_core,  // not the output of the attention core
  input          // the residual stream before the layer, alone
};
constexpr int kKeepCount = 3;

// One layer and all rows in flight: what it keeps, and the FLOPs that backward adds.
struct KeepCost {
  int64_t bytes = 0;
  double flops = 0;
};
using KeepCosts = std::array<KeepCost, kKeepCount>;  // by Keep

// What each of `layers` keeps. A budget chooses the fewest FLOPs that fit, and the first layers, whose
// backward is last, when other layers' memory is free already. Throws UserError where nothing fits, naming
// the least that would.
std::vector<Keep> keep_plan(const spec::Recompute& recompute, int64_t layers, const KeepCosts& costs);

}  // namespace muster::nn
