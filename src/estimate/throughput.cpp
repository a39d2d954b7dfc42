#include "estimate/throughput.h"

namespace muster::estimate {

const char* to_string(AttentionPairs pairs) {
  constexpr const char* names[] = {"causal", "full", "none"};
  return names[static_cast<int>(pairs)];
}

double attention_flops(int64_t layers, int64_t width, int64_t sequence, AttentionPairs pairs) {
  if (pairs == AttentionPairs::none) return 0;
  const double square =
      12.0 * static_cast<double>(layers) * static_cast<double>(width) * static_cast<double>(sequence);
  return pairs == AttentionPairs::causal ? square / 2 : square;
}

double hardware_flops(const TokenFlops& flops, Recompute recompute) {
  const double again = recompute == Recompute::full        ? flops.linear + flops.attention
                       : recompute == Recompute::selective ? flops.attention
                                                           : 0;
  return flops.total() + again / 3;
}

}  // namespace muster::estimate
