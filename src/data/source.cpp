#include "data/source.h"

#include <cmath>

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

int64_t tokenizer_vocabulary(const spec::Job& job) {
  if (job.data.format != "text" && job.data.format != "jsonl") return 0;
  return 256;
}

TokenFile open_ids(const spec::Job& job, const Place& place) {
  const std::string& format = job.data.format;
  if (format == "uint16") return TokenFile::open_flat(place, IdType::u16);
  if (format == "uint32") return TokenFile::open_flat(place, IdType::u32);
  if (format == "megatron") return open_megatron(place);
  if (format == "text" && job.data.tokenizer == "bytes") return TokenFile::open_flat(place, IdType::u8);
  throw UserError(
      {"data.format", format, "is not a format of data", "use text, jsonl, megatron, uint16 or uint32"});
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

}  // namespace muster::data
