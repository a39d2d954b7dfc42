#include "data/tokenizer/added_tokens.h"

#include <algorithm>

namespace muster::data {

void AddedTokens::add(std::string content, int32_t id) {
  if (content.empty()) return;
  std::vector<Token>& tokens = by_first_byte_[static_cast<unsigned char>(content[0])];
  const auto place = std::find_if(tokens.begin(), tokens.end(),
                                  [&](const Token& token) { return token.content.size() < content.size(); });
  tokens.insert(place, {std::move(content), id});
}

bool AddedTokens::find(std::string_view text, size_t from, Found& found) const {
  for (size_t at = from; at < text.size(); ++at)
    for (const Token& token : by_first_byte_[static_cast<unsigned char>(text[at])])
      if (text.substr(at).starts_with(token.content)) {
        found = {at, at + token.content.size(), token.id};
        return true;
      }
  return false;
}

}  // namespace muster::data
