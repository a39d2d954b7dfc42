#include "base/table.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace muster {
namespace {

// Columns on a screen: one a code point.
size_t width(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

bool looks_like_number(const std::string& cell) {
  return cell.empty() || cell == "-" || std::isdigit(static_cast<unsigned char>(cell.front())) ||
         (cell.size() > 1 && (cell[0] == '-' || cell[0] == '+') &&
          std::isdigit(static_cast<unsigned char>(cell[1])));
}

std::string padded(const std::string& cell, size_t columns, bool right) {
  const std::string space(columns - std::min(columns, width(cell)), ' ');
  return right ? space + cell : cell + space;
}

}  // namespace

std::string Table::text() const {
  std::vector<size_t> widths(header_.size());
  std::vector<bool> right(header_.size(), !rows_.empty());
  for (size_t column = 0; column < header_.size(); ++column) {
    widths[column] = width(header_[column]);
    for (const auto& row : rows_) {
      MUSTER_CHECK(row.size() == header_.size(), "a row of {} cells under {} headings", row.size(),
                   header_.size());
      widths[column] = std::max(widths[column], width(row[column]));
      if (!looks_like_number(row[column])) right[column] = false;
    }
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t column = 0; column < cells.size(); ++column)
      line += (column ? "  " : "") + padded(cells[column], widths[column], right[column]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line(header_);
  std::vector<std::string> rule;
  for (size_t columns : widths) rule.emplace_back(columns, '-');
  add_line(rule);
  for (const auto& row : rows_) add_line(row);
  return text;
}

}  // namespace muster
