// The alphabet in which byte-level BPE writes its tokens: one visible character for each byte.
// Source: Radford et al., GPT-2's encoder.py, bytes_to_unicode: printable Latin-1 stands for itself, the
// other 68 bytes for U+0100 and on, in order.
#pragma once
#include <string>
#include <string_view>

namespace muster::data {

// The bytes that `token` writes; a token with a character outside the alphabet stands for its own UTF-8
// bytes. `token` is well-formed UTF-8.
std::string bytes_of_token(std::string_view token);

}  // namespace muster::data
