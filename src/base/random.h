// Counter-based random numbers: each value is a function of (key, counter), so that it depends on what it is
// for (a seed, a name, a position) and never on who draws it or in which order.
// Philox 4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace muster {

using PhiloxKey = std::array<uint32_t, 2>;
using PhiloxBlock = std::array<uint32_t, 4>;

// Four uniform 32-bit words for a counter under a key.
inline PhiloxBlock philox(PhiloxKey key, uint64_t counter_low, uint64_t counter_high = 0) {
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c0, c1, c2, c3};
}

// A key for a purpose: hash(seed, name). Different names give independent streams.
PhiloxKey random_key(uint64_t seed, std::string_view name);

// [0, 1) from one word, 24 bits: exact in fp32.
inline float to_unit_float(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}
// [0, 1) from two words, 53 bits.
inline double to_unit_double(uint32_t high, uint32_t low) {
  return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
}

// A bijection of [0, size), different for each key, evaluated at one index without a list in memory: a
// balanced Feistel network over the next even power of two, walked until it falls inside (Black and Rogaway,
// "Ciphers with arbitrary finite domains", CT-RSA 2002, section 3). size >= 1.
uint64_t permute_index(uint64_t index, uint64_t size, PhiloxKey key);

}  // namespace muster
