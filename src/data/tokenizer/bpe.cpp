#include "data/tokenizer/bpe.h"

#include <algorithm>

#include "base/hash.h"
#include "data/tokenizer/utf8.h"

namespace muster::data {
namespace {

constexpr const char* kRemedy = "the file is damaged: fetch it again";

// A map that takes a view for a string without copying it.
struct ViewHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return hash64(text); }
};
using WordCache = std::unordered_map<std::string, std::vector<int32_t>, ViewHash, std::equal_to<>>;

constexpr size_t kMostCachedWords = 1 << 17;
constexpr size_t kMostCachedBytes = 64;

// GPT-2's and Llama 3's patterns end every match at a letter that a space follows, and look ahead no further
// than at white space; an added token with a space in it could lie across the cut.
bool may_cut(const TokenizerFile& file) {
  const auto spaced = [](const AddedToken& token) { return token.content.find(' ') != std::string::npos; };
  return file.patterns.size() == 1 &&
         (file.patterns[0] == kGpt2Pattern || file.patterns[0] == kLlama3Pattern) &&
         std::none_of(file.added.begin(), file.added.end(), spaced);
}

}  // namespace

BpeTokenizer::BpeTokenizer(const TokenizerFile& file, const Place& place)
    : ignore_merges_(file.ignore_merges),
      may_cut_(may_cut(file)),
      begin_of_text_(file.begin_of_text),
      end_of_text_(file.end_of_text),
      fingerprint_(file.fingerprint) {
  take_tokens(file, place);
  take_merges(file, place);
  take_bytes(place);
  for (const std::string& pattern : file.patterns) patterns_.emplace_back(pattern);
}

void BpeTokenizer::take_tokens(const TokenizerFile& file, const Place& place) {
  for (const auto& [token, id] : file.vocabulary) {
    if (!bytes_of_.emplace(id, token).second) refuse(place, fmt::format("gives id {} twice", id), kRemedy);
    id_of_.emplace(token, id);
    largest_id_ = std::max<int64_t>(largest_id_, id);
  }
  for (const AddedToken& token : file.added) {
    bytes_of_.insert_or_assign(token.id, token.content);
    added_[token.normalized].add(token.content, token.id);
    largest_id_ = std::max<int64_t>(largest_id_, token.id);
  }
}

void BpeTokenizer::take_merges(const TokenizerFile& file, const Place& place) {
  const auto id = [&](const std::string& token) {
    const auto found = id_of_.find(token);
    if (found == id_of_.end())
      refuse(place, "merges into or out of \"" + token + "\", which is no token", kRemedy);
    return found->second;
  };
  for (const auto& [left, right] : file.merges) merges_.add(id(left), id(right), id(left + right));
}

void BpeTokenizer::take_bytes(const Place& place) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = id_of_.find(std::string(1, static_cast<char>(byte)));
    if (found == id_of_.end()) refuse(place, fmt::format("has no token for byte 0x{:02X}", byte), kRemedy);
    id_of_byte_[static_cast<size_t>(byte)] = found->second;
  }
}

void BpeTokenizer::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  if (ignore_merges_)
    if (const auto whole = id_of_.find(std::string(word)); whole != id_of_.end()) {
      ids.push_back(whole->second);
      return;
    }
  std::vector<int32_t> symbols;
  symbols.reserve(word.size());
  for (const char byte : word) symbols.push_back(id_of_byte_[static_cast<unsigned char>(byte)]);
  merges_.apply(symbols, ids);
}

std::string BpeTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    const auto found = bytes_of_.find(id);
    if (found == bytes_of_.end())
      throw WorldError(WorldError::Kind::data, fmt::format("the tokenizer has no id {}", id));
    text += found->second;
  }
  return text;
}

class BpeEncoder : public Encoder {
 public:
  explicit BpeEncoder(const BpeTokenizer& tokenizer) : tokenizer_(tokenizer) {
    for (const Pattern& pattern : tokenizer.patterns_) searches_.emplace_back(pattern);
  }

  void encode(std::string_view text, std::vector<int32_t>& ids) override {
    require_utf8(text);
    take_out_added(0, text, ids);
  }

 private:
  // Round 0 looks for tokens that are found before normalization, round 1 for the others in what is left.
  void take_out_added(size_t round, std::string_view text, std::vector<int32_t>& ids) {
    if (round == tokenizer_.added_.size()) return cut(0, text, ids);
    AddedTokens::Found found;
    size_t at = 0;
    while (tokenizer_.added_[round].find(text, at, found)) {
      take_out_added(round + 1, text.substr(at, found.begin - at), ids);
      ids.push_back(found.id);
      at = found.end;
    }
    take_out_added(round + 1, text.substr(at), ids);
  }

  // Matches of a pattern are pieces, and so is what lies between them.
  void cut(size_t pattern, std::string_view text, std::vector<int32_t>& ids) {
    if (text.empty()) return;
    if (pattern == searches_.size()) return encode_word(text, ids);
    size_t at = 0, begin, end;
    while (at < text.size() && searches_[pattern].find(text, at, begin, end)) {
      cut(pattern + 1, text.substr(at, begin - at), ids);
      cut(pattern + 1, text.substr(begin, end - begin), ids);
      at = end;
    }
    cut(pattern + 1, text.substr(at), ids);
  }

  void encode_word(std::string_view word, std::vector<int32_t>& ids) {
    if (const auto known = cache_.find(word); known != cache_.end()) {
      ids.insert(ids.end(), known->second.begin(), known->second.end());
      return;
    }
    const auto first = std::ssize(ids);
    tokenizer_.encode_word(word, ids);
    if (word.size() <= kMostCachedBytes && cache_.size() < kMostCachedWords)
      cache_.emplace(word, std::vector<int32_t>(ids.begin() + first, ids.end()));
  }

  const BpeTokenizer& tokenizer_;
  std::vector<Pattern::Search> searches_;
  WordCache cache_;
};

std::unique_ptr<Encoder> BpeTokenizer::encoder() const {
  return std::make_unique<BpeEncoder>(*this);
}

}  // namespace muster::data
