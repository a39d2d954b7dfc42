// From the job's settings to files of ids.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "data/documents/tokenize.h"
#include "data/files/place.h"
#include "data/files/token_cache.h"
#include "data/files/token_file.h"
#include "data/tokenizer/tokenizer.h"
#include "spec/config/job.h"

namespace muster::data {

// The files that training and validation read. A mixture's come in the order of Mixture::paths().
std::vector<Place> training_places(const spec::Job& job);
std::optional<Place> validation_place(const spec::Job& job);

// How many windows of a training file train; the rest, at its end, validate.
struct Split {
  int64_t training = 0;
  int64_t validation = 0;
};
Split split(const spec::DataConfig& data, int64_t ids);

// Throws UserError where a file of `ids` ids is left with no window for a use.
void require_window(const spec::DataConfig& data, const Place& place, int64_t ids, int64_t windows);

// Opens the job's files, whatever their format.
class Sources {
 public:
  // Reads the tokenizer, where the format needs one. Throws UserError. The job outlives this.
  explicit Sources(const spec::Job& job);

  // One more than the largest id of the tokenizer; 0 where the files hold ids.
  int64_t vocabulary() const { return tokenizer_ ? tokenizer_->vocabulary() : 0; }
  // Whether the file's ids come out of the token cache. Text under "bytes" is its own ids.
  bool is_tokenized() const;
  // Checks sizes, not ids. Text that is not in the cache is tokenized. Throws UserError.
  TokenFile open(const Place& place) const;
  // Nothing where the file's ids are not in the cache yet.
  std::optional<TokenFile> open_if_ready(const Place& place) const;
  // For what is_tokenized: the cache entry, its checksum verified, made where it is missing or damaged.
  CacheEntry tokenized(const Place& place, const Progress& progress) const;

 private:
  uint64_t cache_key(const Place& place) const;
  CacheEntry find_or_tokenize(const Place& place, bool read_all, const Progress& progress) const;

  const spec::Job& job_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace muster::data
