// Text to token ids and back.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::data {

// One thread's way into a tokenizer: it remembers the words that it has seen. Outlived by its tokenizer.
class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the ids of `text`, as one document on its own, without begin or end tokens. Throws
  // WorldError(data) with the byte where text is not UTF-8 and the tokenizer needs it to be.
  virtual void encode(std::string_view text, std::vector<int32_t>& ids) = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::unique_ptr<Encoder> encoder() const = 0;
  // The bytes of the ids, one after another: a sequence cut inside a character gives part of it. Throws
  // WorldError(data) for an id that the tokenizer does not have.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  // One more than the largest id, added tokens included: what an embedding needs.
  virtual int64_t vocabulary() const = 0;
  // Whether text may be encoded in parts that are cut before a space between two ASCII letters, with the same
  // ids: long texts are then encoded in parallel and without holding them whole.
  virtual bool may_cut_before_spaces() const { return false; }
  virtual std::optional<int32_t> begin_of_text() const { return std::nullopt; }
  virtual std::optional<int32_t> end_of_text() const { return std::nullopt; }
  // Changes where the ids of some text may change.
  virtual uint64_t fingerprint() const = 0;
};

// "bytes", or the path of a tokenizer.json (tokenizer_json.h says which). Throws UserError on data.tokenizer.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name);

}  // namespace muster::data
