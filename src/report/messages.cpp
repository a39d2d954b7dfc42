#include <fmt/format.h>

#include <cmath>
#include <map>

#include "base/units.h"
#include "report/html.h"
#include "report/sections.h"
#include "telemetry/exposure.h"

namespace muster::report {
namespace {

using telemetry::MessageTotal;
using telemetry::StepRecord;

// Bytes over each link for a byte of payload, at the least: the factors between algbw and busbw of nccl-tests
// (doc/PERFORMANCE.md). Nothing for operations that it does not list.
std::optional<double> bus_factor(const std::string& op, int64_t group_size) {
  const double n = static_cast<double>(group_size);
  if (op == "all_reduce") return 2 * (n - 1) / n;
  if (op == "all_gather" || op == "reduce_scatter" || op == "all_to_all") return (n - 1) / n;
  if (op == "broadcast" || op == "send" || op == "receive") return 1;
  return std::nullopt;
}

struct Row {
  std::optional<MessageTotal> rehearsed, measured;
  std::optional<double> bus_bytes;
  std::optional<telemetry::Exposure> exposure;
};
using Rows = std::vector<std::pair<std::pair<std::string, std::string>, Row>>;

Row& row_of(Rows& rows, const std::string& axis, const std::string& op) {
  for (auto& [key, row] : rows)
    if (key == std::pair(axis, op)) return row;
  return rows.emplace_back(std::pair(axis, op), Row{}).second;
}

std::vector<MessageTotal> totals(const std::optional<StepRecord>& record,
                                 const std::vector<MessageTotal>* otherwise) {
  if (record) return record->message_totals();
  return otherwise ? *otherwise : std::vector<MessageTotal>{};
}

void add_wire(Rows& rows, const StepRecord& record) {
  for (const telemetry::MessageEvent& message : record.messages) {
    Row& row = row_of(rows, message.axis, message.op);
    if (const auto factor = bus_factor(message.op, message.group_size))
      row.bus_bytes = row.bus_bytes.value_or(0) + *factor * static_cast<double>(message.bytes);
  }
}

Rows rows_of(const RunFiles& run) {
  Rows rows;
  const auto* summary = run.summary ? &*run.summary : nullptr;
  for (const MessageTotal& total : totals(run.rehearsed, summary ? &summary->rehearsed_messages : nullptr))
    row_of(rows, total.axis, total.op).rehearsed = total;
  for (const MessageTotal& total : totals(run.measured, summary ? &summary->measured_messages : nullptr))
    row_of(rows, total.axis, total.op).measured = total;
  if (run.measured)
    for (telemetry::Exposure& exposure : telemetry::exposures(*run.measured))
      row_of(rows, exposure.axis, exposure.op).exposure = std::move(exposure);
  if (run.measured || run.rehearsed) add_wire(rows, run.measured ? *run.measured : *run.rehearsed);
  return rows;
}

std::string count_cell(const std::optional<MessageTotal>& total, int64_t MessageTotal::*figure) {
  return total ? format_exact((*total).*figure) : "–";
}

std::string verdict_cell(const Row& row) {
  if (!row.rehearsed || !row.measured) return "–";
  return *row.rehearsed == *row.measured ? "<span class=\"same\">=</span>"
                                         : "<span class=\"differs\">differs</span>";
}

std::vector<std::string> cells_of(const std::string& axis, const std::string& op, const Row& row) {
  return {escape(axis),
          escape(op),
          count_cell(row.rehearsed, &MessageTotal::count),
          count_cell(row.measured, &MessageTotal::count),
          count_cell(row.rehearsed, &MessageTotal::bytes),
          count_cell(row.measured, &MessageTotal::bytes),
          verdict_cell(row),
          row.bus_bytes ? format_exact(std::llround(*row.bus_bytes)) : "–"};
}

std::string why_cell(const telemetry::Exposure& exposure) {
  std::string text;
  for (const telemetry::ExposedPart& part : exposure.parts)
    text += fmt::format("{}{} ({} of {}): {}; most before {}", text.empty() ? "" : "<br>",
                        format_seconds(part.seconds), part.count, exposure.count, escape(part.why),
                        escape(part.where));
  return text.empty() ? "all hidden" : text;
}

std::string exposure_table(const Rows& rows) {
  std::vector<std::vector<std::string>> cells;
  for (const auto& [key, row] : rows)
    if (row.exposure)
      cells.push_back({escape(key.first), escape(key.second), why_cell(*row.exposure),
                       format_exact(row.exposure->count), format_seconds(row.exposure->link_seconds),
                       format_seconds(row.exposure->exposed_seconds),
                       percent(row.exposure->exposed_share())});
  if (cells.empty()) return "";
  return "<h3>What the computation did not hide</h3>" +
         html_table({"axis", "operation", "why it was exposed", "count", "on the link", "exposed", "share"},
                    cells, 3);
}

}  // namespace

std::string messages_section(const RunFiles& run) {
  const std::string lead =
      "Rank 0, one step. Bytes are the payload (the larger tensor of the operation); wire is what each link "
      "must carry "
      "at least; on the link is from issue to arrival, exposed how long the computation stood still.";
  const Rows rows = rows_of(run);
  if (rows.empty()) {
    const bool known = run.measured || run.rehearsed || run.summary;
    return section("messages", "Messages", lead,
                   missing(known ? "No messages: every group has one rank."
                                 : run.problems.at("trace/record.measured.json")));
  }
  std::vector<std::vector<std::string>> cells;
  for (const auto& [key, row] : rows) cells.push_back(cells_of(key.first, key.second, row));
  return section("messages", "Messages", lead,
                 html_table({"axis", "operation", "count, rehearsed", "measured", "bytes, rehearsed",
                             "measured", "", "wire bytes"},
                            cells, 2) +
                     exposure_table(rows));
}

}  // namespace muster::report
