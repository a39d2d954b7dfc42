#include "data/tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "data/tokenizer/utf8.h"

namespace muster::data {
namespace {

constexpr int kCharacters = 0x100 + 68;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

// character -> byte, or -1
constexpr std::array<int16_t, kCharacters> make_alphabet() {
  std::array<int16_t, kCharacters> bytes{};
  bytes.fill(-1);
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte)
    bytes[static_cast<size_t>(stands_for_itself(byte) ? byte : next++)] = static_cast<int16_t>(byte);
  return bytes;
}

constexpr std::array<int16_t, kCharacters> kAlphabet = make_alphabet();

}  // namespace

std::string bytes_of_token(std::string_view token) {
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const char32_t character = next_character(token, at);
    if (character >= kCharacters || kAlphabet[character] < 0) return std::string(token);
    bytes += static_cast<char>(kAlphabet[character]);
  }
  return bytes;
}

}  // namespace muster::data
