#include "data/fingerprint.h"

#include <algorithm>

#include "base/hash.h"
#include "base/units.h"
#include "data/files/megatron.h"
#include "data/source.h"

namespace muster::data {
namespace {

constexpr int64_t kSampleBytes = MiB, kSamples = 64;

// Sample `number` of a large file begins here: the first at its start, the last at its end.
int64_t sample_start(int64_t bytes, int64_t number) {
  return static_cast<int64_t>(static_cast<__int128>(bytes - kSampleBytes) * number / (kSamples - 1));
}

uint64_t hash_of(const File& file, int64_t bytes) {
  StreamHash hash;
  std::string sample;
  const auto add = [&](int64_t first, int64_t size) {
    sample.resize(static_cast<size_t>(size));
    file.read_at(sample.data(), sample.size(), first);
    hash.add(sample);
  };
  if (bytes <= kSampleBytes * kSamples)
    for (int64_t at = 0; at < bytes; at += kSampleBytes) add(at, std::min(kSampleBytes, bytes - at));
  else
    for (int64_t number = 0; number < kSamples; ++number) add(sample_start(bytes, number), kSampleBytes);
  return hash.take();
}

// The files that a place of this format stands for.
std::vector<Place> files_of(const Place& place, const std::string& format) {
  if (format != "megatron") return {place};
  const MegatronPair pair = megatron_pair(place);
  return {pair.bin, pair.idx};
}

}  // namespace

std::vector<Fingerprint> fingerprints(const spec::Job& job) {
  std::vector<Place> places;
  for (const Place& place : training_places(job))
    std::ranges::move(files_of(place, job.data.format), std::back_inserter(places));
  const bool is_text = job.data.format == "text" || job.data.format == "jsonl";
  if (is_text && job.data.tokenizer != "bytes") places.push_back({job.data.tokenizer, "data.tokenizer"});
  std::vector<Fingerprint> all;
  for (const Place& place : places) {
    const File file = open_place(place);
    const int64_t bytes = file.size();
    all.push_back({place.field, place.path.string(), bytes, hash_of(file, bytes)});
  }
  return all;
}

}  // namespace muster::data
