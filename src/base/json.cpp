#include "base/json.h"

#include <set>

#include "base/error.h"

namespace muster {

Json parse_json(std::string_view text, const std::string& name, int most_depth) {
  std::vector<std::set<std::string>> keys;
  const auto refuse = [&](const std::string& why) {
    throw WorldError(WorldError::Kind::data, fmt::format("{}: not acceptable JSON: {}", name, why));
  };
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > most_depth) refuse(fmt::format("nested deeper than {}", most_depth));
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      refuse("key \"" + parsed.get<std::string>() + "\" is there twice");
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& error) {
    refuse(error.what());
  }
  return {};
}

}  // namespace muster
