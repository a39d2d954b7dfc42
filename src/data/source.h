// From the job's settings to files of ids.
#pragma once
#include <optional>
#include <vector>

#include "data/files/place.h"
#include "data/files/token_file.h"
#include "spec/config/job.h"

namespace muster::data {

// The files that training and validation read. A mixture's come in the order of Mixture::paths().
std::vector<Place> training_places(const spec::Job& job);
std::optional<Place> validation_place(const spec::Job& job);

// One more than the largest id of the job's tokenizer; 0 where the job's files hold ids.
int64_t tokenizer_vocabulary(const spec::Job& job);

// The ids of one of these files, whatever its format. Checks sizes, not ids. Throws UserError.
TokenFile open_ids(const spec::Job& job, const Place& place);

// How many windows of a training file train; the rest, at its end, validate.
struct Split {
  int64_t training = 0;
  int64_t validation = 0;
};
Split split(const spec::DataConfig& data, int64_t ids);

// Throws UserError where a file of `ids` ids is left with no window for a use.
void require_window(const spec::DataConfig& data, const Place& place, int64_t ids, int64_t windows);

}  // namespace muster::data
