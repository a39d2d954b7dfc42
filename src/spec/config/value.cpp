#include "spec/config/value.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/units.h"

namespace muster::spec {
namespace {

[[noreturn]] void refuse(const Given& given, const std::string& rule, const std::string& remedy) {
  throw UserError(
      {given.field->name(), given.value.dump(), rule, fmt::format("{} ({})", remedy, given.origin)});
}

void check_interval(double number, const Given& given) {
  const Domain& domain = given.field->domain;
  const bool low = domain.least_excluded ? number <= domain.least : number < domain.least;
  const bool high = domain.most_excluded ? number >= domain.most : number > domain.most;
  if (std::isnan(number) || std::isinf(number)) refuse(given, "must be finite", "give a number");
  if (low || high) refuse(given, "must be " + describe(domain), "give a number in this range");
}

void check_choice(const std::string& word, const Given& given) {
  const auto choices = choices_of(given.field->domain);
  if (!choices.empty() && std::ranges::find(choices, word) == choices.end())
    refuse(given, "must be " + describe(given.field->domain), "choose one of them");
}

// Quotation marks that an editor or a web page made curly end up inside the value.
void check_quotes(const std::string& text, const Given& given) {
  for (const char* quote : {"\u201c", "\u201d", "\u2018", "\u2019"})
    if (text.starts_with(quote) || text.ends_with(quote))
      refuse(given, "has curly quotation marks", "use straight ones: \"...\"");
}

const std::string& text_of(const Json& value, const Given& given) {
  if (!value.is_string()) refuse(given, "must be a text", "put it in quotation marks");
  const auto& text = value.get_ref<const std::string&>();
  check_quotes(text, given);
  return text;
}

bool is_path(const std::string& text, const Field& field) {
  if (field.domain.text == TextKind::path) return !text.empty();
  return field.domain.text == TextKind::path_or_word && text.find_first_of("/.") != text.npos;
}

std::string absolute(const std::string& path, const Given& given) {
  return std::filesystem::absolute(given.folder / path).lexically_normal().string();
}

void read(const Given& given, std::string& out) {
  const std::string& text = text_of(given.value, given);
  check_choice(text, given);
  out = is_path(text, *given.field) ? absolute(text, given) : text;
}

void read(const Given& given, int64_t& out) {
  if (given.field->unit == "bytes" && given.value.is_string())
    out = parse_bytes(given.value.get<std::string>(), given.field->name());
  else if (given.value.is_number_integer())
    out = given.value.get<int64_t>();
  else
    refuse(given, "must be a whole number", "write it without quotation marks, point or exponent");
  check_interval(static_cast<double>(out), given);
}

void read(const Given& given, uint64_t& out) {
  int64_t number = 0;
  read(given, number);
  out = static_cast<uint64_t>(number);
}

double number_of(const Json& value, const Given& given) {
  if (!value.is_number()) refuse(given, "must be a number", "write it without quotation marks");
  const double number = value.get<double>();
  check_interval(number, given);
  return number;
}

void read(const Given& given, double& out) {
  out = number_of(given.value, given);
}

void read(const Given& given, bool& out) {
  static const Json off[] = {false, 0, "false", "False", "no", ""};
  static const Json on[] = {true, 1, "true", "True", "yes"};
  const bool is_on = std::ranges::find(on, given.value) != std::end(on);
  if (!is_on && std::ranges::find(off, given.value) == std::end(off))
    refuse(given, "must be true or false", "write true or false");
  out = is_on;
}

const Json& list_of(const Given& given) {
  if (!given.value.is_array()) refuse(given, "must be a list", "write it as [a, b]");
  return given.value;
}

void read(const Given& given, std::vector<double>& out) {
  out.clear();
  for (const Json& item : list_of(given)) out.push_back(number_of(item, given));
}

void read(const Given& given, std::vector<std::string>& out) {
  out.clear();
  for (const Json& item : list_of(given)) {
    out.push_back(text_of(item, given));
    check_choice(out.back(), given);
  }
}

void read(const Given& given, Family& out) {
  const std::string& word = text_of(given.value, given);
  check_choice(word, given);
  out = word == "gpt2" ? Family::gpt2 : Family::llama;
}

// Checks that `table` is one and has no key but `known`.
void check_table(const Json& table, const std::vector<std::string_view>& known, const Given& given) {
  if (!table.is_object())
    refuse(given, "must be a table", fmt::format("give the keys {}", fmt::join(known, ", ")));
  for (const auto& [key, value] : table.items())
    if (std::ranges::find(known, key) == known.end())
      refuse(given, fmt::format("has no key {}", key),
             fmt::format("its keys are {}", fmt::join(known, ", ")));
}

double positive(const Json& table, const char* key, double fallback, const Given& given) {
  if (!table.contains(key)) return fallback;
  const double number = number_of(table[key], given);
  if (!(number > 0)) refuse(given, fmt::format("{} must be above 0", key), "give a positive number");
  return number;
}

void read_llama3(const Given& given, RopeScaling& out) {
  const Json& table = given.value;
  out.low_freq_factor = positive(table, "low_freq_factor", out.low_freq_factor, given);
  out.high_freq_factor = positive(table, "high_freq_factor", out.high_freq_factor, given);
  if (out.high_freq_factor <= out.low_freq_factor)
    refuse(given, "high_freq_factor must be above low_freq_factor", "Llama 3.1 has 4 and 1");
  const double original = positive(table, "original_max_position_embeddings",
                                   static_cast<double>(out.original_max_position_embeddings), given);
  if (original != std::floor(original) || original > 1e15)
    refuse(given, "original_max_position_embeddings must be a whole number", "Llama 3.1 has 8192");
  out.original_max_position_embeddings = static_cast<int64_t>(original);
}

void read(const Given& given, RopeScaling& out) {
  const std::vector<std::string_view> all = {"rope_type",        "type",
                                             "factor",           "low_freq_factor",
                                             "high_freq_factor", "original_max_position_embeddings"};
  const Json& table = given.value;
  check_table(table, all, given);
  RopeScaling read;
  const char* spelled = table.contains("rope_type") ? "rope_type" : "type";
  if (table.contains(spelled)) read.type = text_of(table[spelled], given);
  if (read.type == "default") read.type = "none";
  if (read.type == "none") {
    check_table(table, {"rope_type", "type"}, given);
  } else if (read.type == "linear") {
    check_table(table, {"rope_type", "type", "factor"}, given);
  } else if (read.type != "llama3") {
    refuse(given, "rope_type must be one of none, linear, llama3", "choose one of them");
  }
  read.factor = positive(table, "factor", read.factor, given);
  if (read.type == "llama3") read_llama3(given, read);
  out = read;
}

DataSource source_of(const Json& table, const Given& given) {
  check_table(table, {"path", "weight", "from_sample"}, given);
  DataSource source;
  if (!table.contains("path")) refuse(given, "each source needs a path", "give path = \"...\"");
  source.path = absolute(text_of(table["path"], given), given);
  source.weight = positive(table, "weight", source.weight, given);
  if (table.contains("from_sample")) {
    const Json& from = table["from_sample"];
    if (!from.is_number_integer() || from.get<int64_t>() < 0)
      refuse(given, "from_sample must be a whole number, at least 0",
             "count sequences from the start of the run");
    source.from_sample = from.get<int64_t>();
  }
  return source;
}

void read(const Given& given, std::vector<DataSource>& out) {
  out.clear();
  for (const Json& table : list_of(given)) out.push_back(source_of(table, given));
}

Json json_of(Family family) {
  return to_string(family);
}

Json json_of(const RopeScaling& scaling) {
  Json table = {{"rope_type", scaling.type}};
  if (scaling.type == "none") return table;
  table["factor"] = scaling.factor;
  if (scaling.type != "llama3") return table;
  table["low_freq_factor"] = scaling.low_freq_factor;
  table["high_freq_factor"] = scaling.high_freq_factor;
  table["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  return table;
}

Json json_of(const std::vector<DataSource>& sources) {
  Json list = Json::array();
  for (const DataSource& source : sources)
    list.push_back({{"path", source.path}, {"weight", source.weight}, {"from_sample", source.from_sample}});
  return list;
}

template <class Plain>
Json json_of(const Plain& value) {
  return value;
}

std::string toml_of(const Json& value) {
  std::string text;
  if (value.is_array()) {
    for (const Json& item : value) text += (text.empty() ? "" : ", ") + toml_of(item);
    return "[" + text + "]";
  }
  if (value.is_object()) {
    for (const auto& [key, item] : value.items())
      text += (text.empty() ? "" : ", ") + key + " = " + toml_of(item);
    return "{ " + text + " }";
  }
  // A path need not be UTF-8; JSON's other texts and numbers are TOML's.
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void read_value(const Given& given, Job& job) {
  // A value that is refused leaves the default: the rules still run, and divide by it.
  const auto read_over = [&](auto* place) {
    auto value = *place;
    read(given, value);
    *place = std::move(value);
  };
  std::visit(read_over, given.field->in(job));
}

std::string read_text_value(const Given& given) {
  std::string text;
  read(given, text);
  return text;
}

Json to_json(const Field& field, Job& job) {
  return std::visit([](auto* place) { return json_of(*place); }, field.in(job));
}

std::string to_toml(const Field& field, Job& job) {
  return toml_of(to_json(field, job));
}

}  // namespace muster::spec
