#include "telemetry/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>

namespace muster::telemetry {
namespace {

std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

double earliest(const std::vector<const StepRecord*>& ranks) {
  double first = std::numeric_limits<double>::infinity();
  for (const StepRecord* record : ranks) {
    for (const OpEvent& op : record->ops) first = std::min(first, op.start_seconds);
    for (const MessageEvent& message : record->messages) first = std::min(first, message.issued_seconds);
    for (const Span& span : record->spans) first = std::min(first, span.start_seconds);
  }
  return first;
}

// The events of one rank.
class RankTrace {
 public:
  RankTrace(const StepRecord& record, size_t rank, double zero, std::vector<std::string>& events)
      : record_(record), rank_(rank), zero_(zero), events_(events) {}

  void write() {
    add("\"ph\":\"M\",\"name\":\"process_name\",\"args\":{{\"name\":\"rank {}\"}}", rank_);
    write_ops();
    write_spans();
    write_messages();
    write_exposed();
    write_memory();
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    events_.push_back(
        fmt::format("{{\"pid\":{},{}}}", rank_, fmt::format(format, std::forward<Args>(args)...)));
  }
  double microseconds(double seconds) const { return (seconds - zero_) * 1e6; }

  // Threads are numbered, and named, in the order in which tracks first appear.
  int64_t thread(const std::string& track) {
    const auto [at, is_new] = threads_.emplace(track, static_cast<int64_t>(threads_.size()) + 1);
    if (is_new) {
      add("\"tid\":{},\"ph\":\"M\",\"name\":\"thread_name\",\"args\":{{\"name\":{}}}", at->second,
          quoted(track));
      add("\"tid\":{0},\"ph\":\"M\",\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{0}}}",
          at->second);
    }
    return at->second;
  }

  void slice(int64_t tid, const std::string& name, double start, double seconds, const std::string& args) {
    add("\"tid\":{},\"ph\":\"X\",\"name\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{{}}}", tid, quoted(name),
        microseconds(start), seconds * 1e6, args);
  }

  void write_ops() {
    for (const OpEvent& op : record_.ops)
      slice(thread("operators"), op.name, op.start_seconds, op.seconds,
            fmt::format("\"where\":{},\"phase\":{},\"flops\":{:.0f},\"bytes\":{}", quoted(op.where),
                        quoted(op.phase), op.flops, op.bytes));
  }

  void write_spans() {
    for (const Span& span : record_.spans)
      slice(thread(span.track), span.name, span.start_seconds, span.seconds, "");
  }

  void write_messages() {
    std::map<std::string, std::vector<const MessageEvent*>> by_axis;
    for (const MessageEvent& message : record_.messages) by_axis[message.axis].push_back(&message);
    for (const auto& [axis, messages] : by_axis) write_axis(axis, messages);
  }

  void write_axis(const std::string& axis, const std::vector<const MessageEvent*>& messages) {
    std::vector<std::pair<double, double>> intervals;
    for (const MessageEvent* message : messages)
      intervals.emplace_back(message->issued_seconds, message->done_seconds);
    const std::vector<size_t> rows = rows_of(intervals);
    for (size_t index = 0; index < messages.size(); ++index) {
      const std::string row = rows[index] ? fmt::format(" ({})", rows[index] + 1) : "";
      write_message(*messages[index], thread(axis + " axis" + row));
    }
  }

  void write_message(const MessageEvent& message, int64_t tid) {
    slice(tid, message.op, message.issued_seconds, message.done_seconds - message.issued_seconds,
          fmt::format("\"bytes\":{},\"group_size\":{},\"sequence\":{},\"exposed_us\":{:.3f}", message.bytes,
                      message.group_size, message.sequence, message.exposed_seconds * 1e6));
    if (record_.ops.empty()) return;
    const uint64_t flow = next_flow_++;
    const double end = std::max(message.issued_seconds, message.done_seconds - 1e-9);
    add("\"tid\":{},\"ph\":\"s\",\"id\":\"{}.{}\",\"cat\":\"message\",\"name\":\"message\",\"ts\":{:.3f}",
        thread("operators"), rank_, flow, microseconds(message.issued_seconds));
    add("\"tid\":{},\"ph\":\"f\",\"bp\":\"e\",\"id\":\"{}.{}\",\"cat\":\"message\",\"name\":\"message\","
        "\"ts\":{:.3f}",
        tid, rank_, flow, microseconds(end));
  }

  void write_exposed() {
    for (const MessageEvent& message : record_.messages)
      if (message.exposed_seconds > 0)
        slice(thread("exposed"), fmt::format("wait for {}, {} axis", message.op, message.axis),
              message.needed_seconds, message.exposed_seconds, fmt::format("\"bytes\":{}", message.bytes));
  }

  // Live bytes at the end of each operator, the finest time that the record knows.
  void write_memory() {
    std::array<int64_t, kCategoryCount> live{};
    std::copy(std::begin(record_.live_at_start), std::end(record_.live_at_start), live.begin());
    size_t event = 0;
    for (const OpEvent& op : record_.ops) {
      for (; event < std::min(op.memory_after, record_.memory.size()); ++event)
        live[static_cast<size_t>(record_.memory[event].category)] += record_.memory[event].bytes;
      if (event == 0) continue;
      std::string args;
      for (int category = 0; category < kCategoryCount; ++category)
        args += fmt::format("{}\"{}\":{}", category ? "," : "", to_string(static_cast<Category>(category)),
                            live[static_cast<size_t>(category)]);
      add("\"ph\":\"C\",\"name\":\"memory (bytes)\",\"ts\":{:.3f},\"args\":{{{}}}",
          microseconds(op.start_seconds + op.seconds), args);
    }
  }

  const StepRecord& record_;
  size_t rank_;
  double zero_;
  std::vector<std::string>& events_;
  std::map<std::string, int64_t> threads_;
  uint64_t next_flow_ = 0;
};

}  // namespace

// Seconds. A start and a length that are summed miss the next start by less than this.
constexpr double kRounding = 1e-9;

std::vector<size_t> rows_of(const std::vector<std::pair<double, double>>& intervals) {
  std::vector<size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t left, size_t right) { return intervals[left].first < intervals[right].first; });
  std::vector<size_t> rows(intervals.size());
  std::vector<double> busy_until;
  for (const size_t index : order) {
    const auto [start, end] = intervals[index];
    size_t row = 0;
    while (row < busy_until.size() && busy_until[row] > start + kRounding) ++row;
    if (row == busy_until.size()) busy_until.push_back(end);
    busy_until[row] = end;
    rows[index] = row;
  }
  return rows;
}

std::string chrome_trace(const std::vector<const StepRecord*>& ranks) {
  std::vector<std::string> events;
  const double zero = earliest(ranks);
  for (size_t rank = 0; rank < ranks.size(); ++rank) RankTrace(*ranks[rank], rank, zero, events).write();
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (size_t index = 0; index < events.size(); ++index)
    text += events[index] + (index + 1 < events.size() ? ",\n" : "\n");
  return text + "]}\n";
}

}  // namespace muster::telemetry
