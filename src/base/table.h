// Tables for a terminal: columns aligned, numbers to the right.
#pragma once
#include <string>
#include <vector>

namespace muster {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // Text with a rule under the header; a column whose every cell looks like a number is right-aligned.
  std::string text() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace muster
