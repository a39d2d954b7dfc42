// Tokens that are found in raw text before anything else happens to it: specials such as <|endoftext|>.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::data {

class AddedTokens {
 public:
  void add(std::string content, int32_t id);

  struct Found {
    size_t begin, end;
    int32_t id;
  };
  // The leftmost token at or after `from`, the longest where several begin together. False: none.
  bool find(std::string_view text, size_t from, Found& found) const;

 private:
  struct Token {
    std::string content;
    int32_t id;
  };
  std::array<std::vector<Token>, 256> by_first_byte_;  // each longest first
};

}  // namespace muster::data
