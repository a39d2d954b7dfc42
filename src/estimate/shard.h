// An even cut of elements over ranks.
#pragma once
#include <cstdint>

namespace muster::estimate {

// What each of `ranks` ranks holds: elements rounded up, so ranks * elements = whole + padding and
// padding < ranks. True for flat shards (ZeRO, FSDP); a matrix cut along a dim must divide without padding.
struct Shard {
  int64_t elements = 0;
  int64_t padding = 0;
};

constexpr Shard shard(int64_t whole, int64_t ranks) {
  const int64_t each = (whole + ranks - 1) / ranks;
  return {each, each * ranks - whole};
}

}  // namespace muster::estimate
