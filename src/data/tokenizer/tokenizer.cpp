#include "data/tokenizer/tokenizer.h"

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/bytes.h"
#include "data/tokenizer/tokenizer_json.h"

namespace muster::data {

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  const Place place{name, "data.tokenizer"};
  return std::make_unique<BpeTokenizer>(read_tokenizer_json(place), place);
}

}  // namespace muster::data
