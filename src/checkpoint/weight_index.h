// model.safetensors.index.json: which shard holds which tensor. Read as untrusted.
//
//   { "metadata": { ... }, "weight_map": { TENSOR: FILE ... } }
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::checkpoint {

struct WeightIndex {
  std::vector<std::pair<std::string, std::string>> files_by_tensor;  // sorted by tensor
};

constexpr int64_t kMostIndexBytes = int64_t{64} << 20;

// Throws WorldError(data): malformed JSON, no weight_map, a tensor named twice, a file name that is not a
// plain name ending in .safetensors.
WeightIndex parse_weight_index(std::string_view text, const std::string& file);
std::string weight_index_text(const WeightIndex& index, int64_t total_bytes);

}  // namespace muster::checkpoint
