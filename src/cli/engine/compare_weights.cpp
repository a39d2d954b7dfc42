#include "cli/engine/compare_weights.h"

#include <set>

#include "base/table.h"
#include "base/units.h"
#include "checkpoint/compare.h"
#include "checkpoint/set/checkpoint_tensors.h"

namespace muster::cli {
namespace {

using checkpoint::CheckpointTensors;

// One of the two; `manifest` is null for published weights.
struct Side {
  std::unique_ptr<checkpoint::TensorSet> set;
  const checkpoint::Manifest* manifest = nullptr;
};

Side open(const fs::path& path, CheckpointTensors::Which which) {
  const auto folder = checkpoint::checkpoint_folder(path);
  if (!folder) return {checkpoint::open_weights(path), nullptr};
  auto set = std::make_unique<CheckpointTensors>(*folder, which);
  const checkpoint::Manifest* manifest = &set->manifest();
  return {std::move(set), manifest};
}

Json to_json(const Side& side) {
  Json json = {{"id", side.set->id()},  {"step", nullptr},   {"next_sample", nullptr},
               {"generation", nullptr}, {"layout", nullptr}, {"world", nullptr}};
  if (!side.manifest) return json;
  json["step"] = side.manifest->name.step;
  json["next_sample"] = side.manifest->next_sample;
  json["generation"] = side.manifest->name.generation;
  json["layout"] = side.manifest->layout;
  json["world"] = side.manifest->world;
  return json;
}

// [{"key", "a", "b"}] of what two maps do not have alike.
template <class Map>
Json differences(const Map& a, const Map& b) {
  std::set<std::string> keys;
  for (const Map* map : {&a, &b})
    for (const auto& [key, value] : *map) keys.insert(key);
  const auto value = [](const Map& map, const std::string& key) {
    const auto found = map.find(key);
    return found == map.end() ? Json() : Json(found->second);
  };
  Json list = Json::array();
  for (const std::string& key : keys)
    if (value(a, key) != value(b, key))
      list.push_back({{"key", key}, {"a", value(a, key)}, {"b", value(b, key)}});
  return list;
}

Json only_in(const Side& side, const Side& other) {
  Json names = Json::array();
  for (const checkpoint::StoredTensor& tensor : side.set->tensors())
    if (!other.set->find(tensor.name)) names.push_back(tensor.name);
  return names;
}

Json kind_of(const checkpoint::StoredTensor& tensor) {
  return {{"dtype", to_string(tensor.dtype)}, {"shape", tensor.shape}};
}

// Null where they are alike to the bit.
Json compare_tensors(const checkpoint::TensorOf& a, const checkpoint::TensorOf& b) {
  Json json = {{"name", a.tensor.name},           {"a", kind_of(a.tensor)}, {"b", kind_of(b.tensor)},
               {"elements", a.tensor.elements()}, {"differing", nullptr},   {"max_absolute", nullptr},
               {"max_relative", nullptr},         {"first", nullptr}};
  if (a.tensor.shape != b.tensor.shape) return json;
  const checkpoint::TensorDifference difference = checkpoint::compare(a, b);
  if (difference.differing == 0 && a.tensor.dtype == b.tensor.dtype) return {};
  json["differing"] = difference.differing;
  json["max_absolute"] = difference.max_absolute;
  json["max_relative"] = difference.max_relative;
  if (difference.differing > 0) json["first"] = difference.first;
  return json;
}

bool is_equal(const Json& comparison) {
  for (const char* list : {"counters", "only_in_a", "only_in_b", "tensors"})
    if (!comparison.at(list).empty()) return false;
  const Json &a = comparison.at("a"), &b = comparison.at("b");
  const bool of_weights = a.at("step").is_null() || b.at("step").is_null();
  return of_weights || (a.at("step") == b.at("step") && a.at("next_sample") == b.at("next_sample"));
}

std::string cell(const Json& value) {
  return value.is_null() ? "-" : value.is_string() ? value.get<std::string>() : value.dump();
}

std::string measure(const Json& value) {
  if (value.is_null()) return "-";
  return std::isinf(value.get<double>()) ? "infinite" : fmt::format("{:.3g}", value.get<double>());
}

std::string names_text(const char* title, const Json& names) {
  std::string text;
  for (const Json& name : names) text += fmt::format("{}: {}\n", title, cell(name));
  return text;
}

std::string facts_text(const Json& comparison) {
  Table table({"", "a", "b"});
  for (const auto& [name, value] : comparison.at("a").items())
    table.add({name, cell(value), cell(comparison.at("b").at(name))});
  for (const char* list : {"counters", "job"})
    for (const Json& entry : comparison.at(list))
      table.add({cell(entry.at("key")), cell(entry.at("a")), cell(entry.at("b"))});
  return table.text();
}

// What one column says of a tensor whose sides may differ in it.
std::string both(const Json& tensor, const char* what) {
  const std::string a = cell(tensor.at("a").at(what)), b = cell(tensor.at("b").at(what));
  return a == b ? a : a + " and " + b;
}

std::string tensors_text(const Json& comparison) {
  const Json& tensors = comparison.at("tensors");
  if (tensors.empty()) return "";
  Table table({"tensor", "dtype", "shape", "differing", "max |a-b|", "relative", "first at"});
  for (const Json& tensor : tensors)
    table.add({cell(tensor.at("name")), both(tensor, "dtype"), both(tensor, "shape"),
               cell(tensor.at("differing")), measure(tensor.at("max_absolute")),
               measure(tensor.at("max_relative")), cell(tensor.at("first"))});
  return "\n" + table.text();
}

}  // namespace

Json compare_weights(const fs::path& path_a, const fs::path& path_b) {
  const bool are_checkpoints = checkpoint::checkpoint_folder(path_a) && checkpoint::checkpoint_folder(path_b);
  const auto which = are_checkpoints ? CheckpointTensors::Which::all : CheckpointTensors::Which::weights;
  const Side a = open(path_a, which), b = open(path_b, which);
  Json json = {{"a", to_json(a)}, {"b", to_json(b)}, {"counters", Json::array()}, {"job", Json::array()}};
  if (are_checkpoints) {
    json["counters"] = differences(a.manifest->counters, b.manifest->counters);
    json["job"] = differences(a.manifest->job, b.manifest->job);
  }
  json["only_in_a"] = only_in(a, b);
  json["only_in_b"] = only_in(b, a);
  json["tensors"] = Json::array();
  int64_t equal = 0;
  for (const checkpoint::StoredTensor& tensor : a.set->tensors()) {
    const checkpoint::StoredTensor* twin = b.set->find(tensor.name);
    if (!twin) continue;
    Json difference = compare_tensors({*a.set, tensor}, {*b.set, *twin});
    difference.is_null() ? void(++equal) : json["tensors"].push_back(std::move(difference));
  }
  json["tensors_equal"] = equal;
  json["equal"] = is_equal(json);
  return json;
}

std::string comparison_text(const Json& comparison) {
  std::string text = facts_text(comparison) + "\n";
  text += names_text("only in a", comparison.at("only_in_a"));
  text += names_text("only in b", comparison.at("only_in_b"));
  text += fmt::format("{} tensors are equal to the bit, {} differ\n",
                      comparison.at("tensors_equal").get<int64_t>(), comparison.at("tensors").size());
  return text + tensors_text(comparison);
}

}  // namespace muster::cli
