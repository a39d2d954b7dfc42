// Every byte is its own id: 256 of them, none special.
#pragma once
#include "data/tokenizer/tokenizer.h"

namespace muster::data {

class ByteTokenizer : public Tokenizer {
 public:
  std::unique_ptr<Encoder> encoder() const override;
  std::string decode(std::span<const int32_t> ids) const override;
  int64_t vocabulary() const override { return 256; }
  bool may_cut_before_spaces() const override { return true; }
  uint64_t fingerprint() const override { return 0; }
};

}  // namespace muster::data
