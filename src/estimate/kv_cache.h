// The cache of keys and values at inference.
// Source: Pope et al., "Efficiently scaling transformer inference", MLSys 2023, section 3.3, for its size and
// its replication over tensor ranks; the products are definitions.
#pragma once
#include <algorithm>
#include <cstdint>

namespace muster::estimate {

struct CacheShape {
  int64_t layers = 0, sequence = 0, kv_heads = 0, head_dim = 0, bytes = 2;
};

// Tensor ranks that divide the cache: more ranks than KV heads hold copies.
inline int64_t cache_divisor(const CacheShape& shape, int64_t tensor) {
  return std::min(tensor, shape.kv_heads);
}

// Bytes of one sequence on one tensor rank: 2 L s h_kv bytes / t, h_kv = kv_heads * head_dim and t no more
// than kv_heads. True for full attention; a sliding window caps s, a latent cache has its own width.
inline int64_t cache_bytes_per_sequence(const CacheShape& shape, int64_t tensor) {
  const int64_t heads = (shape.kv_heads + cache_divisor(shape, tensor) - 1) / cache_divisor(shape, tensor);
  return 2 * shape.layers * shape.sequence * heads * shape.head_dim * shape.bytes;
}

// Sequences that fit beside `weights_bytes` and `reserve_bytes` on a device; 0 where the weights do not fit.
inline int64_t largest_batch(int64_t device_bytes, int64_t reserve_bytes, int64_t weights_bytes,
                             int64_t sequence_bytes) {
  return std::max<int64_t>(0, device_bytes - reserve_bytes - weights_bytes) / sequence_bytes;
}

}  // namespace muster::estimate
