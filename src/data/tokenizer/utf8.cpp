#include "data/tokenizer/utf8.h"

#include <cstring>

#include "base/error.h"

namespace muster::data {
namespace {

unsigned byte_at(std::string_view text, size_t at) {
  return static_cast<unsigned char>(text[at]);
}

// Bytes of the character that `lead` begins; 0 where none begins so.
size_t length_of(unsigned lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

// The second byte carries the rules against overlong forms, surrogates and what is past U+10FFFF.
bool second_fits(unsigned lead, unsigned second) {
  const unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  return second >= least && second <= most;
}

bool well_formed(std::string_view text, size_t at, size_t length) {
  if (length == 0 || at + length > text.size()) return false;
  if (length > 1 && !second_fits(byte_at(text, at), byte_at(text, at + 1))) return false;
  for (size_t more = 2; more < length; ++more)
    if ((byte_at(text, at + more) & 0xC0) != 0x80) return false;
  return true;
}

bool eight_ascii(const char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return (word & 0x8080808080808080) == 0;
}

}  // namespace

std::optional<size_t> first_malformed(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (at + 8 <= text.size() && eight_ascii(text.data() + at)) {
      at += 8;
      continue;
    }
    const size_t length = length_of(byte_at(text, at));
    if (!well_formed(text, at, length)) return at;
    at += length;
  }
  return std::nullopt;
}

void require_utf8(std::string_view text) {
  if (const auto at = first_malformed(text))
    throw WorldError(WorldError::Kind::data,
                     fmt::format("byte {} (0x{:02X}) is not UTF-8", *at, byte_at(text, *at)));
}

char32_t next_character(std::string_view text, size_t& at) {
  const unsigned lead = byte_at(text, at);
  const size_t length = length_of(lead);
  char32_t character = length == 1 ? lead : lead & (0x7Fu >> length);
  for (size_t more = 1; more < length; ++more) character = character << 6 | (byte_at(text, at + more) & 0x3F);
  at += length;
  return character;
}

void append_character(std::string& text, char32_t character) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (character < 0x80) return put(character);
  if (character < 0x800) {
    put(0xC0 | character >> 6);
  } else if (character < 0x10000) {
    put(0xE0 | character >> 12);
    put(0x80 | (character >> 6 & 0x3F));
  } else {
    put(0xF0 | character >> 18);
    put(0x80 | (character >> 12 & 0x3F));
    put(0x80 | (character >> 6 & 0x3F));
  }
  put(0x80 | (character & 0x3F));
}

}  // namespace muster::data
