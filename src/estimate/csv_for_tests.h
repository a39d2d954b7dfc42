// The reference tables, for tests alone.
#pragma once
#include <charconv>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file.h"

namespace muster::estimate {

struct CsvRow : std::map<std::string, std::string> {
  using std::map<std::string, std::string>::map;
  int64_t integer(const std::string& column) {
    const std::string& text = at(column);
    int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
};

// Fields of one line: commas between, quotes around a field that holds commas, "" for a quote.
inline std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += line[++i];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += line[i];
  }
  return fields;
}

// Throws where the file is missing: the reference folder must stand beside the checkout.
inline std::vector<CsvRow> read_csv(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<CsvRow> rows;
  std::vector<std::string> header;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    at = end + 1;
    const auto fields = csv_fields(line);
    if (header.empty()) {
      header = fields;
      continue;
    }
    if (fields.size() != header.size()) throw std::runtime_error(path + ": a row of another width: " + line);
    CsvRow& row = rows.emplace_back();
    for (size_t column = 0; column < header.size(); ++column) row[header[column]] = fields[column];
  }
  return rows;
}

}  // namespace muster::estimate
