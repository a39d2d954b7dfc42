// Structs to JSON and back from one list of their fields. A struct takes part by a function beside it,
//   template <Is<Thing> Self, class Visit> void for_each_field(Self& self, Visit&& visit) {
//     visit("key", self.key);
//   }
// Fields: whole numbers, doubles, bools, text, JSON; optionals and vectors of them; structs with fields.
// A double that is not finite is null, and its object then has "non_finite": true. An empty optional is null.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace muster::telemetry {

// T or const T.
template <class Self, class T>
concept Is = std::is_same_v<std::remove_const_t<Self>, T>;

struct IgnoreField {
  template <class T>
  void operator()(const char*, T&) const {}
};
template <class T>
concept HasFields = requires(T& value) {
  for_each_field(value, IgnoreField{});
};

class FieldWriter {
 public:
  template <class T>
  void operator()(const char* key, const T& value) {
    json_[key] = to_value(value);
  }
  Json take() {
    if (non_finite_) json_["non_finite"] = true;
    return std::move(json_);
  }

 private:
  Json to_value(double value) {
    non_finite_ |= !std::isfinite(value);
    return std::isfinite(value) ? Json(value) : Json();
  }
  template <class T>
  Json to_value(const std::optional<T>& value) {
    return value ? to_value(*value) : Json();
  }
  template <class T>
  Json to_value(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(to_value(value));
    return list;
  }
  template <class T>
  Json to_value(const T& value) {
    if constexpr (HasFields<const T>) {
      FieldWriter inner;
      for_each_field(value, inner);
      return inner.take();
    } else {
      return Json(value);
    }
  }

  Json json_ = Json::object();
  bool non_finite_ = false;
};

// Reads what a FieldWriter wrote, from a file that may hold anything: missing keys keep their defaults, a
// value of another type is WorldError(data) naming `source` and the key.
class FieldReader {
 public:
  FieldReader(const Json& json, std::string source) : json_(json), source_(std::move(source)) {
    if (!json.is_object()) throw WorldError(WorldError::Kind::data, source_ + ": not an object");
    non_finite_ = json.value("non_finite", Json()) == true;
  }
  template <class T>
  void operator()(const char* key, T& value) const {
    if (json_.contains(key)) read(key, json_[key], value);
  }

 private:
  void read(const std::string& key, const Json& cell, double& value) const {
    if (cell.is_null() && non_finite_)
      value = std::numeric_limits<double>::quiet_NaN();
    else
      value = take<double>(key, cell, cell.is_number());
  }
  void read(const std::string& key, const Json& cell, int64_t& value) const {
    value = take<int64_t>(key, cell, cell.is_number_integer());
  }
  void read(const std::string& key, const Json& cell, bool& value) const {
    value = take<bool>(key, cell, cell.is_boolean());
  }
  void read(const std::string& key, const Json& cell, std::string& value) const {
    value = take<std::string>(key, cell, cell.is_string());
  }
  void read(const std::string&, const Json& cell, Json& value) const { value = cell; }
  template <class T>
  void read(const std::string& key, const Json& cell, std::optional<T>& value) const {
    if (!cell.is_null()) read(key, cell, value.emplace());
  }
  template <class T>
  void read(const std::string& key, const Json& cell, std::vector<T>& values) const {
    if (!cell.is_array()) refuse(key, cell);
    for (const Json& element : cell) read(key, element, values.emplace_back());
  }
  template <HasFields T>
  void read(const std::string& key, const Json& cell, T& value) const {
    for_each_field(value, FieldReader(cell, source_ + ": \"" + key + "\""));
  }

  template <class T>
  T take(const std::string& key, const Json& cell, bool fits) const {
    if (!fits) refuse(key, cell);
    return cell.get<T>();
  }
  [[noreturn]] void refuse(const std::string& key, const Json& cell) const {
    throw WorldError(WorldError::Kind::data, fmt::format("{}: \"{}\" holds {}, which is no value of it",
                                                         source_, key, cell.dump().substr(0, 40)));
  }

  const Json& json_;
  std::string source_;
  bool non_finite_ = false;
};

}  // namespace muster::telemetry
