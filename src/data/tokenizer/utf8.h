// UTF-8 as RFC 3629 defines it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::data {

// The first byte that does not continue well-formed UTF-8: no overlong forms, no surrogates, none above
// U+10FFFF, none cut short.
std::optional<size_t> first_malformed(std::string_view text);
// Throws WorldError(data) naming that byte.
void require_utf8(std::string_view text);

// Well-formed text only: the character at `at`, which moves behind it.
char32_t next_character(std::string_view text, size_t& at);
void append_character(std::string& text, char32_t character);

}  // namespace muster::data
