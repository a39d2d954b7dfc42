// xxh3, the one non-cryptographic hash of the program.
#pragma once
#include <cstdint>
#include <string_view>

namespace muster {

uint64_t hash64(std::string_view bytes, uint64_t seed = 0);

}  // namespace muster
