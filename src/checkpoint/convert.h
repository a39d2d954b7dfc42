// From one folder of weights to another: dtype, shards, and the orders of rows that other programs use.
#pragma once
#include "checkpoint/hugging_face.h"

namespace muster::checkpoint {

enum class RotaryLayout { half_split, pairwise };
enum class QkvLayout { separate, fused };

struct ConvertOptions {
  std::optional<at::ScalarType> dtype{};                  // none: each tensor keeps its own
  RotaryLayout source_rotary = RotaryLayout::half_split;  // written half-split, as Hugging Face reads it
  QkvLayout source_qkv = QkvLayout::separate;             // fused: self_attn.qkv_proj, in layouts.h's order
  QkvLayout qkv = QkvLayout::separate;                    // of what is written
  SaveOptions save{};
};

struct ConvertSummary {
  int64_t tensors = 0;
  int64_t bytes = 0;
};

// Reads the weights of `model` at `source` and writes the folder `target` (save_weights). One tensor is in
// memory at a time (three while queries, keys and values are joined). Throws UserError with everything wrong
// about the request before anything is written.
ConvertSummary convert_weights(const fs::path& source, const fs::path& target, const spec::ModelSpec& model,
                               const ConvertOptions& options);

}  // namespace muster::checkpoint
