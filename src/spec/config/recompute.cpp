#include "spec/config/recompute.h"

#include <charconv>

#include "base/error.h"
#include "base/units.h"

namespace muster::spec {
namespace {

constexpr const char* kField = "layout.recompute";

[[noreturn]] void refuse(const std::string& text) {
  throw UserError({kField, text, "must be none, selective, full, every:K or budget:SIZE",
                   "every:2 computes every second layer again, budget:10GiB as little as fits"});
}

int64_t parse_count(const std::string& text, const std::string& digits) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc() || end != digits.data() + digits.size() || count < 1) refuse(text);
  return count;
}

}  // namespace

Recompute parse_recompute(const std::string& text) {
  using Kind = Recompute::Kind;
  if (text == "none") return {};
  if (text == "selective") return {Kind::selective};
  if (text == "full") return {Kind::full};
  const size_t colon = text.find(':');
  if (colon == std::string::npos) refuse(text);
  const std::string word = text.substr(0, colon), rest = text.substr(colon + 1);
  if (word == "every") return {Kind::every, parse_count(text, rest)};
  if (word == "budget") return {Kind::budget, 1, parse_bytes(rest, kField)};
  refuse(text);
}

}  // namespace muster::spec
