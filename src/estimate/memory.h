// Model states: parameters, gradients and optimizer state on one rank, for each ZeRO stage.
#pragma once
#include <cstdint>

namespace muster::estimate {

// Bytes a parameter. The default is mixed precision with Adam: half-precision parameter and gradient;
// full-precision parameter, momentum and variance (Rajbhandari et al., "ZeRO", SC 2020, section 3.1).
struct BytesPerParameter {
  double parameter = 2, gradient = 2, optimizer = 12;
  double total() const { return parameter + gradient + optimizer; }
};

struct ModelStates {
  int64_t parameters = 0, gradients = 0, optimizer = 0;  // bytes
  int64_t total() const { return parameters + gradients + optimizer; }
};
ModelStates operator+(const ModelStates& a, const ModelStates& b);

// Bytes of the model states on one rank whose tensor and pipeline share is `elements`, in a group of `data`
// ranks. Stage 1 shards the optimizer, 2 the gradients too, 3 the parameters too
// (Rajbhandari et al., SC 2020, section 5 and figure 1: (2+2+K)P, 4P + KP/N, 2P + (2+K)P/N, (4+K)P/N).
// Shards are rounded up to whole elements. Leaves out buckets and communication scratch; stage 2's line is
// reached only when gradients are reduced as they are made, not after accumulation.
ModelStates model_states(int64_t elements, const BytesPerParameter& bytes, int zero, int64_t data);

// The units that stage 3 holds whole beside its shard: the one in use and the `prefetched` ones ahead, each
// a layer of elements / layers parameters at their own width. Zero below stage 3 or with one data rank.
// True for equal layers; an embedding gathered as a unit of its own can be larger.
int64_t gathered_bytes(int64_t elements, int64_t layers, const BytesPerParameter& bytes, int zero,
                       int64_t data, int prefetched = 1);

// Volume that a data rank sends in a step, in units of the parameters' bytes as the group's size grows:
// reduce-scatter and all-gather of P each for stages 0-2; stage 3 gathers twice (Rajbhandari et al., SC 2020,
// section 7). A ring moves (N-1)/N of it. Holds for gradients and parameters of one width.
constexpr int zero_volume(int zero) {
  return zero == 3 ? 3 : 2;
}

}  // namespace muster::estimate
