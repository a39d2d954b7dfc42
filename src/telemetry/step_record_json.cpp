// The file form of a step record:
//   {"format": "muster step record", "version": 2,
//    "columns": {"ops": [...], "messages": [...], "memory": [...], "spans": [...]},
//    "names": ["matmul", ...],                      a name in a row is an index into this list
//    "live_at_start": {"parameters": bytes, ...},
//    "ops": [[name, where, phase, flops, bytes, start_seconds, seconds, memory_after], ...],
//    "messages": [[axis, op, bytes, group_size, sequence, issued_after, needed_after, issued_seconds,
//                  done_seconds, needed_seconds, exposed_seconds], ...],
//    "memory": [[bytes, category], ...],            category by its number
//    "spans": [[name, track, start_seconds, seconds], ...]}
#include <cmath>
#include <map>

#include "base/error.h"
#include "telemetry/step_record.h"

namespace muster::telemetry {
namespace {

constexpr const char* kFormat = "muster step record";
constexpr int kVersion = 2;

// Numbers names as they come.
class NameList {
 public:
  int64_t operator()(const std::string& name) {
    const auto [at, is_new] = index_.emplace(name, static_cast<int64_t>(list_.size()));
    if (is_new) list_.push_back(name);
    return at->second;
  }
  Json take() { return std::move(list_); }

 private:
  std::map<std::string, int64_t> index_;
  Json list_ = Json::array();
};

Json columns() {
  return {{"ops", {"name", "where", "phase", "flops", "bytes", "start_seconds", "seconds", "memory_after"}},
          {"messages",
           {"axis", "op", "bytes", "group_size", "sequence", "issued_after", "needed_after", "issued_seconds",
            "done_seconds", "needed_seconds", "exposed_seconds"}},
          {"memory", {"bytes", "category"}},
          {"spans", {"name", "track", "start_seconds", "seconds"}}};
}

// One row of a list, read cell by cell.
class Row {
 public:
  Row(const Json& row, size_t cells, const char* list, size_t index, const Json& names,
      const std::string& source)
      : row_(row), list_(list), index_(index), names_(names), source_(source) {
    if (!row.is_array() || row.size() != cells) refuse(fmt::format("does not have {} cells", cells));
  }
  std::string name() {
    const int64_t index = integer();
    if (index < 0 || index >= static_cast<int64_t>(names_.size())) refuse("names what is not in the list");
    return names_[static_cast<size_t>(index)].get<std::string>();
  }
  int64_t integer() {
    const Json& cell = row_[at_++];
    if (!cell.is_number_integer()) refuse(fmt::format("needs a whole number in cell {}", at_ - 1));
    return cell.get<int64_t>();
  }
  int64_t count() {
    const int64_t value = integer();
    if (value < 0) refuse(fmt::format("has {} in cell {}, where a count belongs", value, at_ - 1));
    return value;
  }
  double number() {
    const Json& cell = row_[at_++];
    if (!cell.is_number()) refuse(fmt::format("needs a number in cell {}", at_ - 1));
    return cell.get<double>();
  }
  Category category() {
    const int64_t value = integer();
    if (value < 0 || value >= kCategoryCount) refuse(fmt::format("has the unknown category {}", value));
    return static_cast<Category>(value);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw WorldError(WorldError::Kind::data, fmt::format("{}: {}[{}] {}", source_, list_, index_, why));
  }
  const Json& row_;
  const char* list_;
  size_t index_;
  const Json& names_;
  const std::string& source_;
  size_t at_ = 0;
};

[[noreturn]] void refuse(const std::string& source, const std::string& why) {
  throw WorldError(WorldError::Kind::data, fmt::format("{}: not a step record: {}", source, why));
}

const Json& member(const Json& json, const char* key, bool (Json::*is_kind)() const noexcept,
                   const std::string& source) {
  if (!json.contains(key) || !(json[key].*is_kind)()) refuse(source, fmt::format("\"{}\" is missing", key));
  return json[key];
}

template <class Read>
void for_rows(const Json& json, const char* list, const std::string& source, Read&& read) {
  const Json& rows = member(json, list, &Json::is_array, source);
  const size_t cells = columns().at(list).size();
  for (size_t index = 0; index < rows.size(); ++index)
    read(Row(rows[index], cells, list, index, json["names"], source));
}

void read_live(const Json& json, StepRecord& record, const std::string& source) {
  const Json& live = member(json, "live_at_start", &Json::is_object, source);
  for (int category = 0; category < kCategoryCount; ++category) {
    const char* name = to_string(static_cast<Category>(category));
    if (!live.contains(name)) continue;
    if (!live[name].is_number_integer()) refuse(source, fmt::format("live_at_start.{} is no count", name));
    record.live_at_start[category] = live[name].get<int64_t>();
  }
}

void check_header(const Json& json, const std::string& source) {
  if (!json.is_object() || json.value("format", Json()) != kFormat) refuse(source, "the format is another");
  if (json.value("version", Json()) != kVersion)
    refuse(source, fmt::format("version {} is not {}", json.value("version", Json()).dump(), kVersion));
  for (const Json& name : member(json, "names", &Json::is_array, source))
    if (!name.is_string()) refuse(source, "\"names\" holds something else");
}

Json live_json(const StepRecord& record) {
  Json live = Json::object();
  for (int category = 0; category < kCategoryCount; ++category)
    live[to_string(static_cast<Category>(category))] = record.live_at_start[category];
  return live;
}

}  // namespace

Json to_json(const StepRecord& record) {
  NameList name;
  Json ops = Json::array(), messages = Json::array(), memory = Json::array(), spans = Json::array();
  for (const OpEvent& op : record.ops)
    ops.push_back(Json::array({name(op.name), name(op.where), name(op.phase), op.flops, op.bytes,
                               op.start_seconds, op.seconds, op.memory_after}));
  for (const MessageEvent& message : record.messages)
    messages.push_back(
        Json::array({name(message.axis), name(message.op), message.bytes, message.group_size,
                     message.sequence, message.issued_after, message.needed_after, message.issued_seconds,
                     message.done_seconds, message.needed_seconds, message.exposed_seconds}));
  for (const MemoryEvent& event : record.memory)
    memory.push_back(Json::array({event.bytes, static_cast<int>(event.category)}));
  for (const Span& span : record.spans)
    spans.push_back(Json::array({name(span.name), name(span.track), span.start_seconds, span.seconds}));
  return {{"format", kFormat},
          {"version", kVersion},
          {"columns", columns()},
          {"names", name.take()},
          {"live_at_start", live_json(record)},
          {"ops", std::move(ops)},
          {"messages", std::move(messages)},
          {"memory", std::move(memory)},
          {"spans", std::move(spans)}};
}

StepRecord step_record_from_json(const Json& json, const std::string& source) {
  check_header(json, source);
  StepRecord record;
  read_live(json, record, source);
  for_rows(json, "ops", source, [&](Row row) {
    OpEvent op;
    op.name = row.name(), op.where = row.name(), op.phase = row.name();
    op.flops = row.number(), op.bytes = row.integer();
    op.start_seconds = row.number(), op.seconds = row.number();
    op.memory_after = static_cast<size_t>(row.count());
    record.ops.push_back(std::move(op));
  });
  for_rows(json, "messages", source, [&](Row row) {
    MessageEvent message;
    message.axis = row.name(), message.op = row.name();
    message.bytes = row.integer(), message.group_size = row.count();
    message.sequence = static_cast<uint64_t>(row.count());
    message.issued_after = static_cast<size_t>(row.count());
    message.needed_after = static_cast<size_t>(row.count());
    message.issued_seconds = row.number(), message.done_seconds = row.number();
    message.needed_seconds = row.number(), message.exposed_seconds = row.number();
    record.messages.push_back(std::move(message));
  });
  for_rows(json, "memory", source, [&](Row row) {
    const int64_t bytes = row.integer();
    record.memory.push_back({bytes, row.category()});
  });
  for_rows(json, "spans", source, [&](Row row) {
    Span span;
    span.name = row.name(), span.track = row.name();
    span.start_seconds = row.number(), span.seconds = row.number();
    record.spans.push_back(std::move(span));
  });
  return record;
}

}  // namespace muster::telemetry
