#include "estimate/memory.h"

#include <cmath>

#include "estimate/shard.h"

namespace muster::estimate {
namespace {

int64_t bytes_of(int64_t elements, double each) {
  return std::llround(static_cast<double>(elements) * each);
}

}  // namespace

ModelStates operator+(const ModelStates& a, const ModelStates& b) {
  return {a.parameters + b.parameters, a.gradients + b.gradients, a.optimizer + b.optimizer};
}

ModelStates model_states(int64_t elements, const BytesPerParameter& bytes, int zero, int64_t data) {
  const int64_t part = shard(elements, data).elements;
  return {bytes_of(zero >= 3 ? part : elements, bytes.parameter),
          bytes_of(zero >= 2 ? part : elements, bytes.gradient),
          bytes_of(zero >= 1 ? part : elements, bytes.optimizer)};
}

int64_t gathered_bytes(int64_t elements, int64_t layers, const BytesPerParameter& bytes, int zero,
                       int64_t data, int prefetched) {
  if (zero < 3 || data == 1) return 0;
  return (1 + prefetched) * bytes_of(shard(elements, layers).elements, bytes.parameter);
}

}  // namespace muster::estimate
