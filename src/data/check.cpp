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

void check_vocabulary(const spec::Job& job, Problems& problems) {
  const int64_t ids = tokenizer_vocabulary(job);
  if (ids > job.model.vocab_size)
    problems.add("model.vocab_size", fmt::format("{}", job.model.vocab_size),
                 fmt::format("the tokenizer {} gives ids up to {}", job.data.tokenizer, ids - 1),
                 fmt::format("set it to {} or more", ids));
}

void check_file(const spec::Job& job, const Place& place, bool holds_out, Problems& problems) {
  problems.gather([&] {
    if (job.data.format == "megatron") check_megatron(place);
    const TokenFile file = open_ids(job, place);
    const int64_t ids = file.ids();
    const int64_t windows =
        holds_out ? split(job.data, ids).training : window_count(ids, job.data.sequence_length);
    problems.gather([&] { require_window(job.data, place, ids, windows); });
    problems.gather([&] { check_ids(place, file, job.model.vocab_size); });
  });
}

}  // namespace

void check(const spec::Job& job, Problems& problems) {
  problems.gather([&] { check_vocabulary(job, problems); });
  problems.gather([&] {
    for (const Place& place : training_places(job)) check_file(job, place, true, problems);
  });
  problems.gather([&] {
    if (const auto place = validation_place(job)) check_file(job, *place, false, problems);
  });
}

}  // namespace muster::data
