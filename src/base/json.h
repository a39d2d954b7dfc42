// JSON. `Json` keeps the order in which keys were written, so that output reads as it was composed.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace muster {

using Json = nlohmann::ordered_json;

// Parses text from outside: no deeper than `most_depth`, no duplicate keys, nothing after the end. `name` is
// the file or field named in the WorldError(data).
Json parse_json(std::string_view text, const std::string& name, int most_depth = 32);

}  // namespace muster
