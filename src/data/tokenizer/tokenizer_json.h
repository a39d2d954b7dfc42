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
