// The header of a safetensors file, read as untrusted.
//
//   file   = length header data
//   length = unsigned 64-bit little-endian: bytes of the header
//   header = one JSON object, padded with spaces:
//            { "__metadata__": { string: string ... },                      (may be absent)
//              NAME: { "dtype": DTYPE, "shape": [n ...], "data_offsets": [begin, end] } ... }
//   data   = every tensor's elements, little-endian, row-major, without gaps or overlaps;
//            offsets count from the start of the data
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/dtype.h"

namespace muster::checkpoint {

struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // bytes from the start of the data
  int64_t end = 0;
  int64_t bytes() const { return end - begin; }
};

using Metadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // in the order of their data
  Metadata metadata;
};

// What a header may hold. The first is the official reader's; the rest keep a hostile file cheap.
constexpr int64_t kMostHeaderBytes = 100'000'000;
constexpr size_t kMostTensors = 1'000'000;
constexpr size_t kMostNameBytes = 512;
constexpr size_t kMostRank = 8;
constexpr size_t kMostMetadataBytes = 1 << 20;

// Parses and checks a header in front of `data_bytes` bytes of data. Throws WorldError(data): "`file`: tensor
// "x": rule" or "`file`: byte n of the header: rule". Allocates in proportion to `text` alone.
SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes,
                                           const std::string& file);

// elements * bytes_of(dtype); throws WorldError(data) where 63 bits do not hold it.
int64_t checked_bytes(const TensorEntry& tensor, const std::string& file);

}  // namespace muster::checkpoint
