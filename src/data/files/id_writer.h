// Writes a file of ids that appears whole or not at all.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/file.h"
#include "data/files/token_file.h"

namespace muster::data {

class IdWriter {
 public:
  // Opens a new file beside `path`.
  IdWriter(fs::path path, IdType type);
  // What was not committed is removed.
  ~IdWriter();

  // Ids of 0 or more that the type holds: another is a Bug.
  void append(std::span<const int32_t> ids);
  // Writes what is still held back; then `tail`, syncs, and gives the file its name.
  void commit(std::string_view tail = {});

  IdType type() const { return type_; }
  int64_t ids() const { return ids_; }
  // As TokenFile::checksum of what was appended. Nothing may be appended after it.
  uint64_t checksum();

 private:
  template <class Id>
  void narrow(std::span<const int32_t> ids);
  void flush();

  fs::path path_, beside_;
  File file_;
  IdType type_;
  int64_t ids_ = 0;
  uint64_t checksum_ = 0;
  std::vector<char> buffer_;
};

}  // namespace muster::data
