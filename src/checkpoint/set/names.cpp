#include "checkpoint/set/names.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace muster::checkpoint {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

}  // namespace

std::string to_string(const SetName& name) {
  return fmt::format("step-{:08}.g{}", name.step, name.generation);
}

std::optional<SetName> parse_set_name(std::string_view text) {
  SetName name;
  const size_t dot = text.find(".g");
  if (!text.starts_with("step-") || dot == text.npos) return std::nullopt;
  std::from_chars(text.data() + 5, text.data() + dot, name.step);
  std::from_chars(text.data() + dot + 2, text.data() + text.size(), name.generation);
  // Only the one spelling of a name is a name.
  if (name.step < 1 || name.generation < 1 || to_string(name) != text) return std::nullopt;
  return name;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 128 && is_word(name[0]) &&
         std::ranges::all_of(name, [](char c) { return is_word(c) || c == '.'; });
}

std::string new_nonce() {
  uint64_t bits = 0;
  MUSTER_CHECK(::getrandom(&bits, sizeof bits, 0) == sizeof bits, "the system gave no random bits");
  return fmt::format("{:016x}", bits);
}

}  // namespace muster::checkpoint
