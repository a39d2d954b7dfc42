#include "base/random.h"

#include <bit>

#include "base/error.h"
#include "base/hash.h"

namespace muster {
namespace {

constexpr int kRounds = 8;

uint64_t feistel(uint64_t value, int half_bits, PhiloxKey key) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits, right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const PhiloxBlock block = philox(key, right, round);
    const uint64_t mixed = left ^ ((uint64_t{block[0]} << 32 | block[1]) & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits | right;
}

}  // namespace

PhiloxKey random_key(uint64_t seed, std::string_view name) {
  const uint64_t mixed = hash64(name, seed);
  return {static_cast<uint32_t>(mixed), static_cast<uint32_t>(mixed >> 32)};
}

uint64_t permute_index(uint64_t index, uint64_t size, PhiloxKey key) {
  MUSTER_CHECK(index < size, "index {} of {}", index, size);
  const int bits = std::bit_width(size - 1);
  const int half_bits = (bits + 1) / 2;
  if (half_bits == 0) return 0;
  do index = feistel(index, half_bits, key);
  while (index >= size);
  return index;
}

}  // namespace muster
