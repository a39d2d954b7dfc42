// Hugging Face's tokenizer.json, for byte-level BPE as GPT-2 and Llama 3 use it.
//
// Read: model BPE (vocab, merges as "a b" or ["a","b"], ignore_merges); added_tokens; pre_tokenizer
// ByteLevel, alone or as the last of a Sequence of Split patterns (behavior Isolated); the first special
// token of post_processor. Refused where it would change ids and is not read: normalizer, dropout, unk_token
// in use, byte_fallback, affixes, add_prefix_space, added tokens with lstrip, rstrip or single_word.
// Truncation and padding belong to inference and are not applied. The decoder is byte-level's.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/files/place.h"

namespace muster::data {

// GPT-2's pattern, which ByteLevel has built in (Radford et al., encoder.py), and Llama 3's (its
// tokenizer.json).
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool normalized = false;  // found after the others
};

// Tokens as bytes.
struct TokenizerFile {
  std::vector<std::pair<std::string, int32_t>> vocabulary;
  struct Merge {
    std::string left, right;
  };
  std::vector<Merge> merges;
  std::vector<AddedToken> added;
  std::vector<std::string> patterns;  // applied in turn, each to the pieces that the one before left
  bool ignore_merges = false;         // a word that is a token is that token
  std::optional<int32_t> begin_of_text, end_of_text;
  uint64_t fingerprint = 0;  // of the file's bytes
};

// At most 64 MiB. The end token is the eos_token of a tokenizer_config.json beside the file, else the first
// of the names by which published models call it. Throws UserError.
TokenizerFile read_tokenizer_json(const Place& place);

}  // namespace muster::data
