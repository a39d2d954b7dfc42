#include "data/dataset.h"
#include "data/files/megatron.h"
#include "data/source.h"

namespace muster::data {
namespace {

void check_ids(const Place& place, const TokenFile& file, int64_t vocabulary) {
  const std::optional<IdAt> bad = file.find_at_least(static_cast<uint64_t>(vocabulary));
  if (!bad) return;
  refuse(place,
         fmt::format("holds id {} at position {}, and model.vocab_size = {} ends at {}", bad->id,
                     bad->position, vocabulary, vocabulary - 1),
         "raise model.vocab_size, or tokenize again");
}

void check_vocabulary(const spec::Job& job, int64_t ids, Problems& problems) {
  if (ids > job.model.vocab_size)
    problems.add("model.vocab_size", fmt::format("{}", job.model.vocab_size),
                 fmt::format("the tokenizer {} gives ids up to {}", job.data.tokenizer, ids - 1),
                 fmt::format("set it to {} or more", ids));
}

// What is to be tokenized is only looked for: its ids are within the tokenizer's.
void check_file(const spec::Job& job, const Sources& sources, const Place& place, bool holds_out,
                Problems& problems) {
  if (job.data.format == "megatron") check_megatron(place);
  const std::optional<TokenFile> file = sources.open_if_ready(place);
  if (!file) return;
  const int64_t ids = file->ids();
  const int64_t windows =
      holds_out ? split(job.data, ids).training : window_count(ids, job.data.sequence_length);
  problems.gather([&] { require_window(job.data, place, ids, windows); });
  problems.gather([&] { check_ids(place, *file, job.model.vocab_size); });
}

struct Used {
  Place place;
  bool holds_out;  // gives a part of itself to validation
};

std::vector<Used> files_of(const spec::Job& job, Problems& problems) {
  std::vector<Used> files;
  problems.gather([&] {
    for (const Place& place : training_places(job)) files.push_back({place, true});
  });
  problems.gather([&] {
    if (const auto place = validation_place(job)) files.push_back({*place, false});
  });
  return files;
}

}  // namespace

void check(const spec::Job& job, Problems& problems) {
  std::optional<Sources> sources;
  problems.gather([&] { sources.emplace(job); });
  if (sources) check_vocabulary(job, sources->vocabulary(), problems);
  for (const auto& [place, holds_out] : files_of(job, problems))
    problems.gather([&, &place = place, &holds_out = holds_out] {
      if (sources)
        check_file(job, *sources, place, holds_out, problems);
      else
        open_place(place);
    });
}

}  // namespace muster::data
