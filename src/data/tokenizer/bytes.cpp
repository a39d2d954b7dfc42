#include "data/tokenizer/bytes.h"

#include "base/error.h"

namespace muster::data {
namespace {

class ByteEncoder : public Encoder {
 public:
  void encode(std::string_view text, std::vector<int32_t>& ids) override {
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  }
};

}  // namespace

std::unique_ptr<Encoder> ByteTokenizer::encoder() const {
  return std::make_unique<ByteEncoder>();
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id < 0 || id > 255)
      throw WorldError(WorldError::Kind::data,
                       fmt::format("id {} is no byte: the tokenizer is \"bytes\"", id));
    text += static_cast<char>(id);
  }
  return text;
}

}  // namespace muster::data
