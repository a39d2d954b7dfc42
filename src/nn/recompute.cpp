#include "nn/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/units.h"

namespace muster::nn {
namespace {

using Kind = spec::Recompute::Kind;

const KeepCost& of(const KeepCosts& costs, Keep keep) {
  return costs[static_cast<size_t>(keep)];
}

// The first `from_input` layers keep their input alone, the next `without_core` all but the core.
struct Split {
  int64_t from_input = 0, without_core = 0;
};

std::vector<Keep> layers_of(const Split& split, int64_t layers) {
  std::vector<Keep> plan(static_cast<size_t>(layers), Keep::all);
  std::fill_n(plan.begin(), split.from_input, Keep::input);
  std::fill_n(plan.begin() + split.from_input, split.without_core, Keep::all_but_core);
  return plan;
}

// The least number of layers without their core that fits beside `from_input` layers; -1: none does.
int64_t without_core(int64_t from_input, int64_t layers, const KeepCosts& costs, int64_t budget) {
  const int64_t all = of(costs, Keep::all).bytes, saved = all - of(costs, Keep::all_but_core).bytes;
  const int64_t others = layers - from_input;
  const int64_t excess = from_input * of(costs, Keep::input).bytes + others * all - budget;
  if (excess <= 0) return 0;
  const int64_t needed = (excess + saved - 1) / saved;
  return needed <= others ? needed : -1;
}

std::vector<Keep> within(int64_t budget, int64_t layers, const KeepCosts& costs) {
  double least = std::numeric_limits<double>::infinity();
  Split best;
  for (int64_t from_input = 0; from_input <= layers; ++from_input) {
    const int64_t rest = without_core(from_input, layers, costs, budget);
    if (rest < 0) continue;
    const double flops = static_cast<double>(from_input) * of(costs, Keep::input).flops +
                         static_cast<double>(rest) * of(costs, Keep::all_but_core).flops;
    if (flops >= least) continue;
    least = flops;
    best = {from_input, rest};
  }
  if (least == std::numeric_limits<double>::infinity()) {
    const int64_t need = layers * of(costs, Keep::input).bytes;
    throw UserError({"layout.recompute", fmt::format("budget:{}", budget),
                     fmt::format("{} layers keep at least {} B ({})", layers, need, format_bytes(need)),
                     "allow more, or split the micro-batch, the sequence or the layers further"});
  }
  return layers_of(best, layers);
}

std::vector<Keep> every(int64_t step, int64_t layers) {
  std::vector<Keep> plan(static_cast<size_t>(layers), Keep::all);
  for (int64_t layer = 0; layer < layers; layer += step) plan[static_cast<size_t>(layer)] = Keep::input;
  return plan;
}

}  // namespace

std::vector<Keep> keep_plan(const spec::Recompute& recompute, int64_t layers, const KeepCosts& costs) {
  switch (recompute.kind) {
    case Kind::none:
      return layers_of({}, layers);
    case Kind::selective:
      return layers_of({0, layers}, layers);
    case Kind::full:
      return layers_of({layers, 0}, layers);
    case Kind::every:
      return every(recompute.every, layers);
    case Kind::budget:
      break;
  }
  return within(recompute.budget_bytes, layers, costs);
}

}  // namespace muster::nn
