// Damage to text and bytes as disks, hands and attackers do it; the same for the same random numbers.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "base/json.h"

namespace muster::test {

class Mutation {
 public:
  explicit Mutation(uint64_t seed) : random_(seed) {}

  size_t below(size_t end) { return end == 0 ? 0 : static_cast<size_t>(random_() % end); }
  bool one_in(size_t n) { return below(n) == 0; }

  // One to four harms. `other` is a text that parts may come from.
  std::string harm(std::string text, const std::string& other) {
    for (size_t harms = 1 + below(4); harms > 0; --harms) harm_once(text, other);
    return text;
  }

  // JSON that still parses: up to three of its values are replaced, taken out or doubled.
  std::string harm_json(const std::string& text) {
    Json json = Json::parse(text);
    for (size_t harms = 1 + below(3); harms > 0; --harms) one_in(2) ? harm_node(json) : harm_leaf(json);
    return json.dump(one_in(2) ? 1 : -1, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  void harm_once(std::string& text, const std::string& other) {
    const size_t at = below(text.size() + 1), length = below(std::min<size_t>(text.size() - at, 64) + 1);
    switch (below(9)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, text.substr(at, length));
        break;
      case 4:
        text.insert(at, token());
        break;
      case 5:
        text.resize(at);
        break;
      case 6:
        text.insert(at, other.substr(below(other.size() + 1), 256));
        break;
      case 7:
        replace_number(text, at);
        break;
      case 8:
        text.insert(at, std::string(below(100'000), "[{\"\0 9"[below(6)]));
        break;
    }
  }

  void replace_number(std::string& text, size_t at) {
    const size_t first = text.find_first_of("0123456789", at);
    if (first == text.npos) return;
    const size_t last = text.find_first_not_of("0123456789", first);
    text.replace(first, last == text.npos ? text.npos : last - first, number());
  }

  // Descends at random until it stops, and harms what is there.
  void harm_node(Json& json) {
    Json* node = &json;
    while (node->is_structured() && !node->empty() && !one_in(5)) {
      auto child = node->begin();
      std::advance(child, static_cast<std::ptrdiff_t>(below(node->size())));
      if (one_in(12)) {
        node->erase(child);
        return;
      }
      if (node->is_array() && one_in(12)) {
        node->push_back(Json(*child));
        return;
      }
      node = &*child;
    }
    *node = value();
  }

  // Any value that holds no others, however deep, as likely as any other.
  void harm_leaf(Json& json) {
    std::vector<Json*> leaves;
    collect(json, leaves);
    if (leaves.empty()) return;
    Json& leaf = *leaves[below(leaves.size())];
    if (leaf.is_number_unsigned() && one_in(3))
      leaf = leaf.get<uint64_t>() * (1 + below(2)) + below(3) - 1;
    else
      leaf = leaf.is_number() ? Json::parse(number()) : value();
  }
  static void collect(Json& json, std::vector<Json*>& leaves) {
    if (!json.is_structured()) return leaves.push_back(&json);
    for (Json& child : json) collect(child, leaves);
  }

  Json value() {
    switch (below(8)) {
      case 0:
        return nullptr;
      case 1:
        return one_in(2);
      case 2:
        return Json::array();
      case 3:
        return Json::object();
      case 4:
        return token();
      case 5:
        return 0.5;
      default:
        return Json::parse(number());
    }
  }

  std::string number() {
    static const std::vector<std::string> numbers = {"0",
                                                     "1",
                                                     "2",
                                                     "7",
                                                     "8",
                                                     "255",
                                                     "4096",
                                                     "65536",
                                                     "2147483648",
                                                     "4294967296",
                                                     "4611686018427387904",
                                                     "9223372036854775807",
                                                     "9223372036854775808",
                                                     "18446744073709551615",
                                                     "18446744073709551616",
                                                     "-1",
                                                     "-9223372036854775808",
                                                     "1e308",
                                                     "0.1"};
    return numbers[below(numbers.size())];
  }

  std::string token() {
    static const std::vector<std::string> tokens = {"../",
                                                    "/etc/passwd",
                                                    ".",
                                                    "..",
                                                    std::string(1, '\0'),
                                                    "\xff\xfe",
                                                    "{}",
                                                    "[]",
                                                    "null",
                                                    "true",
                                                    "\"",
                                                    ",",
                                                    "\"dtype\"",
                                                    "\"BF16\"",
                                                    "\"F8_E4M3\"",
                                                    "\"shape\":[0]",
                                                    "\"data_offsets\":[0,0]",
                                                    "\"pieces\":[]",
                                                    "\"files\":[]",
                                                    "step-00000002.g1",
                                                    "MANIFEST.json",
                                                    "COMMIT",
                                                    "g9223372036854775807",
                                                    "0000000000000000"};
    return one_in(3) ? number() : tokens[below(tokens.size())];
  }

  std::mt19937_64 random_;
};

}  // namespace muster::test
