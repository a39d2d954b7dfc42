#include "data/order/cursor.h"

#include "base/error.h"

namespace muster::data {

Json to_json(const Cursor& cursor) {
  return {{"next_sample", cursor.next_sample}};
}

Cursor cursor_from_json(const Json& json, const std::string& name) {
  const auto found = json.is_object() ? json.find("next_sample") : json.end();
  if (found == json.end() || !found->is_number_integer() || found->get<int64_t>() < 0)
    throw WorldError(WorldError::Kind::data, name + ": a data cursor needs \"next_sample\", a count from 0");
  return {found->get<int64_t>()};
}

}  // namespace muster::data
