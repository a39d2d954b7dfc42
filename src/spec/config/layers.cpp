#include "spec/config/layers.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cctype>

#include "spec/config/nearest.h"

namespace muster::spec {
namespace {

Json json_of(const toml::node& node);

Json json_of(const toml::table& table) {
  Json object = Json::object();
  for (const auto& [key, value] : table) object[std::string(key.str())] = json_of(value);
  return object;
}

Json json_of(const toml::array& array) {
  Json list = Json::array();
  for (const toml::node& item : array) list.push_back(json_of(item));
  return list;
}

Json json_of(const toml::node& node) {
  if (const auto* table = node.as_table()) return json_of(*table);
  if (const auto* array = node.as_array()) return json_of(*array);
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto whole = node.value_exact<int64_t>()) return *whole;
  if (const auto real = node.value_exact<double>()) return *real;
  if (const auto flag = node.value_exact<bool>()) return *flag;
  return nullptr;  // a date or a time: no key takes one
}

std::string in_quotes(std::string_view word) {
  return fmt::format("\"{}\"", word);
}

std::string section_remedy(std::string_view section) {
  const auto near = nearest(section, sections());
  return near ? fmt::format("did you mean [{}]?", *near)
              : fmt::format("the sections are {}", fmt::join(sections(), ", "));
}

std::vector<std::string_view> keys_of(std::string_view section) {
  std::vector<std::string_view> keys;
  for (const Field& field : fields())
    if (field.section == section) keys.push_back(field.key);
  return keys;
}

// What the key was probably meant to be: the nearest of its section, or else of another one.
const Field* meant(std::string_view section, std::string_view key) {
  if (const auto near = nearest(key, keys_of(section))) return find_field(section, *near);
  for (std::string_view other : sections())
    if (const Field* field = find_field(other, key)) return field;
  for (std::string_view other : sections())
    if (const auto near = nearest(key, keys_of(other))) return find_field(other, *near);
  return nullptr;
}

void refuse_key(Layers& layers, const std::string& section, const std::string& key, const std::string& value,
                const std::string& origin) {
  std::string remedy = "leave it out; docs/job.md lists the keys";
  if (const Field* field = meant(section, key)) {
    layers.doubtful.insert(field->name());
    remedy =
        fmt::format("did you mean {}?", field->section == section ? std::string(field->key) : field->name());
  }
  layers.problems.add(section + "." + key, value, "no such key", fmt::format("{} ({})", remedy, origin));
}

void add_section(Layers& layers, const std::string& section, const toml::table& table,
                 const std::string& path) {
  std::map<std::string, std::string> spelled;
  for (const auto& [name, node] : table) {
    const std::string key(name.str()), origin = fmt::format("file {}:{}", path, name.source().begin.line);
    const Field* field = find_field(section, key);
    if (!field) {
      refuse_key(layers, section, key, json_of(node).dump(), origin);
      continue;
    }
    if (const auto [at, is_new] = spelled.emplace(field->key, key); !is_new)
      layers.problems.add(section + "." + key, json_of(node).dump(),
                          fmt::format("is another name of {}, which is given too", at->second),
                          fmt::format("keep one of the two ({})", origin));
    layers.given[field->name()] = {field, json_of(node), origin, std::filesystem::path(path).parent_path()};
  }
}

void add_table(Layers& layers, const toml::table& file, const std::string& path) {
  for (const auto& [name, node] : file) {
    const std::string section(name.str()), origin = fmt::format("file {}:{}", path, name.source().begin.line);
    if (keys_of(section).empty())
      layers.problems.add(section, "", node.is_table() ? "no such section" : "stands outside a section",
                          fmt::format("{} ({})", section_remedy(section), origin));
    else if (!node.is_table())
      layers.problems.add(section, json_of(node).dump(), "is a section",
                          fmt::format("write [{}] ({})", section, origin));
    else
      add_section(layers, section, *node.as_table(), path);
  }
}

// A setting's value: TOML where it is, a text where it is not, and always a text for a key that holds one.
Json value_of(const Field& field, const std::string& text) {
  try {
    const toml::table parsed = toml::parse("value = " + text);
    const toml::node* node = parsed.get("value");
    if (node && parsed.size() == 1 && (!holds_text(field) || node->is_string())) return json_of(*node);
  } catch (const toml::parse_error&) {
    // A bare word, or a text that only looks like TOML.
  }
  return text;
}

void add_text(Layers& layers, const Field& field, const std::string& text, const std::string& origin) {
  if (text == "default")
    layers.given.erase(field.name());
  else
    layers.given[field.name()] = {&field, value_of(field, text), origin, std::filesystem::current_path()};
}

void add_variable(Layers& layers, const std::string& name, const std::string& value) {
  for (std::string_view section : sections()) {
    std::string prefix = "MUSTER_" + std::string(section) + "_", lower = name;
    std::ranges::transform(prefix, prefix.begin(), [](unsigned char c) { return std::toupper(c); });
    if (!name.starts_with(prefix)) continue;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::string key = lower.substr(prefix.size()), origin = "environment " + name;
    if (const Field* field = find_field(section, key))
      add_text(layers, *field, value, origin);
    else
      refuse_key(layers, std::string(section), key, in_quotes(value), origin);
  }
}

void add_setting(Layers& layers, const std::string& setting) {
  const size_t equals = setting.find('='), dot = setting.find('.');
  if (equals == setting.npos || dot > equals) {
    layers.problems.add("--set", in_quotes(setting), "must be section.key=value",
                        "for example --set training.steps=100");
    return;
  }
  const std::string section = setting.substr(0, dot), key = setting.substr(dot + 1, equals - dot - 1),
                    value = setting.substr(equals + 1);
  if (keys_of(section).empty())
    layers.problems.add(section, in_quotes(setting), "no such section",
                        fmt::format("{} (command line)", section_remedy(section)));
  else if (const Field* field = find_field(section, key))
    add_text(layers, *field, value, "command line");
  else
    refuse_key(layers, section, key, in_quotes(value), "command line");
}

}  // namespace

void add_file(Layers& layers, const std::string& toml, const std::string& path) {
  try {
    add_table(layers, toml::parse(toml, path), path);
  } catch (const toml::parse_error& error) {
    const auto at = error.source().begin;
    throw UserError({fmt::format("{}:{}:{}", path, at.line, at.column), "", std::string(error.description()),
                     "texts stand in straight quotation marks, lists in brackets"});
  }
}

void add_environment(Layers& layers) {
  for (char** entry = environ; *entry; ++entry) {
    const std::string variable = *entry;
    const size_t equals = variable.find('=');
    if (variable.starts_with("MUSTER_") && equals != variable.npos)
      add_variable(layers, variable.substr(0, equals), variable.substr(equals + 1));
  }
}

void add_recorded(Layers& layers, const std::string& name, const std::string& toml,
                  const std::string& origin) {
  const size_t dot = name.find('.');
  if (dot == name.npos) return refuse_key(layers, "", name, toml, origin);
  const std::string section = name.substr(0, dot), key = name.substr(dot + 1);
  if (const Field* field = find_field(section, key))
    layers.given[field->name()] = {field, value_of(*field, toml), origin, "/"};
  else
    refuse_key(layers, section, key, toml, origin);
}

void add_settings(Layers& layers, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) add_setting(layers, setting);
}

}  // namespace muster::spec
