// Byte-level byte-pair encoding: added tokens are taken out of the text, patterns cut the rest into words,
// and the bytes of each word are merged by rank.
#pragma once
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/merges.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_json.h"

namespace muster::data {

class BpeTokenizer : public Tokenizer {
 public:
  // Throws UserError naming `place` where the file contradicts itself: a byte without a token, a merge of or
  // into what is no token, an id given twice.
  BpeTokenizer(const TokenizerFile& file, const Place& place);

  std::unique_ptr<Encoder> encoder() const override;
  std::string decode(std::span<const int32_t> ids) const override;
  int64_t vocabulary() const override { return largest_id_ + 1; }
  bool may_cut_before_spaces() const override { return may_cut_; }
  std::optional<int32_t> begin_of_text() const override { return begin_of_text_; }
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }
  uint64_t fingerprint() const override { return fingerprint_; }

 private:
  friend class BpeEncoder;
  void take_tokens(const TokenizerFile& file, const Place& place);
  void take_merges(const TokenizerFile& file, const Place& place);
  void take_bytes(const Place& place);
  // Appends the ids of one word.
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;

  std::unordered_map<std::string, int32_t> id_of_;
  std::unordered_map<int32_t, std::string> bytes_of_;
  std::array<int32_t, 256> id_of_byte_{};
  Merges merges_;
  std::array<AddedTokens, 2> added_;  // by whether normalized
  std::vector<Pattern> patterns_;
  bool ignore_merges_;
  bool may_cut_;
  std::optional<int32_t> begin_of_text_, end_of_text_;
  uint64_t fingerprint_;
  int64_t largest_id_ = -1;
};

}  // namespace muster::data
