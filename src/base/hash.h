// xxh3, the one non-cryptographic hash of the program.
#pragma once
#include <cstdint>
#include <string_view>

namespace muster {

uint64_t hash64(std::string_view bytes, uint64_t seed = 0);

// The same of bytes that come in parts.
class StreamHash {
 public:
  StreamHash();
  ~StreamHash();
  StreamHash(const StreamHash&) = delete;
  StreamHash& operator=(const StreamHash&) = delete;
  void add(std::string_view bytes);
  // The hash of all that was added since the last take.
  uint64_t take();

 private:
  void* state_;
};

}  // namespace muster
