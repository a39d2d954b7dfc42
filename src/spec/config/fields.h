// The one table of a job's keys: name, type, default, allowed values, unit and meaning. The parser, the
// checks, the effective job and docs/job.md all read it; to add a setting, add its member to job.h and its
// row here.
#pragma once
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spec/config/job.h"

namespace muster::spec {

// Where a key's value lives in a job. The alternative is the key's type.
using ValueRef = std::variant<std::string*, int64_t*, uint64_t*, double*, bool*, std::vector<double>*,
                              std::vector<std::string>*, Family*, RopeScaling*, std::vector<DataSource>*>;

// What a text stands for: only paths are made absolute against the folder of the file that gave them.
enum class TextKind { word, path, path_or_word };

// The values a key may take. Numbers, and each number of a list, lie in the interval; words are one of
// `choices` ("a | b | c"), where there are any.
struct Domain {
  std::string_view choices = {};
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool least_excluded = false;
  bool most_excluded = false;
  TextKind text = TextKind::word;
};

struct Field {
  std::string_view section;
  std::string_view key;
  ValueRef (*in)(Job&);  // null: `model.preset` and `model.config`, which fill the other model keys
  Domain domain;
  std::string_view unit;
  std::string_view doc;

  std::string name() const { return std::string(section) + "." + std::string(key); }
};

// All keys, section by section in the order of docs/job.md.
std::span<const Field> fields();
std::vector<std::string_view> sections();

// A key by section and name, its other names (Hugging Face's for gpt2) included; null when there is none.
const Field* find_field(std::string_view section, std::string_view key);
// By "section.key". A bug when there is none.
const Field& field_named(std::string_view name);

// Other names under which a model key is read, with the key they stand for.
struct Alias {
  std::string_view other;
  std::string_view key;
};
std::span<const Alias> aliases();

bool holds_text(const Field& field);

// "at least 1", "one of a, b, c": the domain as a message states it. Empty: no limit.
std::string describe(const Domain& domain);
std::vector<std::string_view> choices_of(const Domain& domain);

}  // namespace muster::spec
