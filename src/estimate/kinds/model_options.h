// The model that a request is about: a preset, dimensions, or both (dimensions override).
#pragma once
#include <cstdint>
#include <string>

#include "estimate/kinds/options.h"
#include "estimate/parameters.h"

namespace muster::estimate {

// What a formula reads; 0: not known.
struct ModelRequest {
  std::string name;
  ParameterCount parameters;  // --params: all of them dense
  bool tied = false;
  bool has_dimensions = false;  // a preset's: exact counts by part
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0, sequence = 0;

  int64_t attention_width() const { return heads > 0 && head_dim > 0 ? heads * head_dim : hidden; }
};

// Reads those of --preset --params (billions) --layers --hidden --heads --kv-heads --head-dim --ffn --vocab
// --sequence that are in `wanted`; an option outside it stays unread. A preset fills the rest; its sequence
// is the longest it was made for. Parameters without a preset and without --params are those of a GPT's
// matrices: V h + L (4h^2 + 2h f), f = 4h unless given.
ModelRequest read_model(Options& options, std::initializer_list<const char*> wanted);

// The rows of the option table, in one place for the kinds that share them.
inline constexpr OptionRow kPresetOption = {"--preset", "NAME", "a public model: see --list-presets"};
inline constexpr OptionRow kParamsOption = {"--params", "B", "parameters, in billions"};

}  // namespace muster::estimate
