// The ids of texts that were tokenized before, in $XDG_CACHE_HOME/muster or ~/.cache/muster.
//
//   tokens-KEY.ids := ids | footer        footer := see Footer, little-endian
//
// KEY is a hash of the text, the tokenizer and the options, so a changed input is another entry. An entry is
// written beside and renamed; tokens-KEY.lock lets one process of a node write it while the others wait.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "data/files/id_writer.h"
#include "data/files/token_file.h"

namespace muster::data {

struct CacheEntry {
  TokenFile ids;
  int64_t documents = 0;
  int64_t skipped_lines = 0;
};

// How a text is told from another: all of a file up to 256 MiB; of a larger one its size, its time of change
// and a mebibyte of each end.
uint64_t content_hash(const Place& place);

class TokenCache {
 public:
  // The folder is made where it is missing.
  static TokenCache open_default();

  struct Counts {
    int64_t documents = 0;
    int64_t skipped_lines = 0;
  };
  // Writes all ids and gives what the footer says beside them.
  using Fill = std::function<Counts(IdWriter&)>;

  // The entry, if it is there and its footer is sound; with `read_all`, its checksum too.
  std::optional<CacheEntry> find(uint64_t key, bool read_all) const;
  // The entry, filled under the lock where it is missing or damaged.
  CacheEntry find_or_fill(uint64_t key, IdType type, bool read_all, const Fill& fill) const;

 private:
  explicit TokenCache(fs::path folder) : folder_(std::move(folder)) {}
  fs::path entry_path(uint64_t key) const;
  fs::path folder_;
};

}  // namespace muster::data
