#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <new>

namespace muster {

uint64_t hash64(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

namespace {

XXH3_state_t* of(void* state) {
  return static_cast<XXH3_state_t*>(state);
}

}  // namespace

StreamHash::StreamHash() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(of(state_));
}

StreamHash::~StreamHash() {
  XXH3_freeState(of(state_));
}

void StreamHash::add(std::string_view bytes) {
  XXH3_64bits_update(of(state_), bytes.data(), bytes.size());
}

uint64_t StreamHash::take() {
  const uint64_t hash = XXH3_64bits_digest(of(state_));
  XXH3_64bits_reset(of(state_));
  return hash;
}

}  // namespace muster
