#include "data/source.h"

#include <cmath>

#include "base/hash.h"
#include "base/units.h"
#include "data/files/megatron.h"
#include "data/order/mixture.h"
#include "data/order/window_order.h"

namespace muster::data {
namespace {

Place place_of(const std::string& path, const char* field) {
  if (path.empty()) throw UserError({field, "", "is missing", "name the file to train on"});
  return {path, field};
}

// Changes where tokenizing the same text would leave other ids in the cache.
constexpr int kCacheRevision = 1;

bool is_text(const spec::DataConfig& data) {
  return data.format == "text" || data.format == "jsonl";
}

}  // namespace

std::vector<Place> training_places(const spec::Job& job) {
  if (job.data.sources.empty()) return {place_of(job.data.path, "data.path")};
  if (job.data.validation_fraction > 0)
    throw UserError({"data.validation_fraction", fmt::format("{}", job.data.validation_fraction),
                     "takes from data.path, and data.sources stands in its place",
                     "give data.validation_path"});
  const Mixture mixture(job.data.sources);
  std::vector<Place> places;
  for (const std::string& path : mixture.paths()) places.push_back(place_of(path, "data.sources"));
  return places;
}

std::optional<Place> validation_place(const spec::Job& job) {
  if (job.data.validation_path.empty()) return std::nullopt;
  return place_of(job.data.validation_path, "data.validation_path");
}

Split split(const spec::DataConfig& data, int64_t ids) {
  const int64_t windows = window_count(ids, data.sequence_length);
  const auto held_out =
      static_cast<int64_t>(std::ceil(static_cast<double>(windows) * data.validation_fraction));
  return {windows - held_out, held_out};
}

void require_window(const spec::DataConfig& data, const Place& place, int64_t ids, int64_t windows) {
  if (windows > 0) return;
  refuse(place,
         fmt::format("holds {} ids: too few for one sequence of data.sequence_length + 1 = {}{}",
                     format_exact(ids), format_exact(data.sequence_length + 1),
                     data.validation_fraction > 0 ? " beside data.validation_fraction" : ""),
         "use a longer text or a shorter sequence");
}

Sources::Sources(const spec::Job& job) : job_(job) {
  if (is_text(job.data)) tokenizer_ = load_tokenizer(job.data.tokenizer);
}

bool Sources::is_tokenized() const {
  return is_text(job_.data) && !(job_.data.format == "text" && job_.data.tokenizer == "bytes");
}

TokenFile Sources::open(const Place& place) const {
  const std::string& format = job_.data.format;
  if (is_tokenized()) return find_or_tokenize(place, /*read_all=*/false, {}).ids;
  if (format == "text") return TokenFile::open_flat(place, IdType::u8);
  if (format == "uint16") return TokenFile::open_flat(place, IdType::u16);
  if (format == "uint32") return TokenFile::open_flat(place, IdType::u32);
  if (format == "megatron") return open_megatron(place);
  throw UserError(
      {"data.format", format, "is not a format of data", "use text, jsonl, megatron, uint16 or uint32"});
}

std::optional<TokenFile> Sources::open_if_ready(const Place& place) const {
  if (!is_tokenized()) return open(place);
  auto entry = TokenCache::open_default().find(cache_key(place), /*read_all=*/false);
  if (!entry) return std::nullopt;
  return std::move(entry->ids);
}

CacheEntry Sources::tokenized(const Place& place, const Progress& progress) const {
  return find_or_tokenize(place, /*read_all=*/true, progress);
}

uint64_t Sources::cache_key(const Place& place) const {
  const spec::DataConfig& data = job_.data;
  return hash64(fmt::format("{} {} {:x} {:x} {}", kCacheRevision, data.format, content_hash(place),
                            tokenizer_->fingerprint(),
                            data.format == "jsonl" ? data.on_bad_line + " " + data.text_key : ""));
}

CacheEntry Sources::find_or_tokenize(const Place& place, bool read_all, const Progress& progress) const {
  const TokenizeOptions options{.format = job_.data.format,
                                .text_key = job_.data.text_key,
                                .skip_bad_lines = job_.data.on_bad_line == "skip"};
  const auto fill = [&](IdWriter& writer) {
    const IdSink sink{[&](std::span<const int32_t> ids) { writer.append(ids); }, [] {}};
    const TokenizeCounts counts = tokenize(place, *tokenizer_, options, sink, progress);
    return TokenCache::Counts{counts.documents, counts.skipped_lines};
  };
  const IdType type = narrowest(tokenizer_->vocabulary() - 1);
  return TokenCache::open_default().find_or_fill(cache_key(place), type, read_all, fill);
}

}  // namespace muster::data
