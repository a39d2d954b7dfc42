// What tells the data of a run from other data: sizes and contents, not names or times.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "spec/config/job.h"

namespace muster::data {

struct Fingerprint {
  std::string field;  // the setting that names the file
  std::string path;
  int64_t bytes = 0;
  uint64_t hash = 0;  // xxh3 of all of it up to 64 MiB; of a larger file, of 64 MiB spread evenly over it
};

// Of every file that decides the training set's ids, in an order that depends on the job alone. Reads 64 MiB
// of each at most. Throws UserError where one cannot be read.
std::vector<Fingerprint> fingerprints(const spec::Job& job);

}  // namespace muster::data
