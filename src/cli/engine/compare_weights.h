// What two checkpoints, or a checkpoint and published weights, have in common and what not.
#pragma once
#include <string>

#include "base/file.h"
#include "base/json.h"

namespace muster::cli {

// Reads both a window at a time. Of two checkpoints all of the state is compared; where one side is published
// weights, parameters alone.
//   {"a", "b": {"id", "step", "next_sample", "generation", "layout", "world"}  (null but for "id" of
//   weights),
//    "counters", "job": [{"key", "a", "b"}]  those that differ, null where absent,
//    "only_in_a", "only_in_b": [names],
//    "tensors": [{"name", "a", "b": {"dtype", "shape"}, "elements", "differing", "max_absolute",
//                 "max_relative", "first"}]  those that differ; the last four null where shapes do,
//    "tensors_equal": count, "equal"}
// A difference that is infinite is null. "equal": step, next sample, counters and every bit of every tensor;
// job, layout and generation are told and do not count. Throws UserError, and WorldError for a side that is
// damaged.
Json compare_weights(const fs::path& a, const fs::path& b);

// The same for a person.
std::string comparison_text(const Json& comparison);

}  // namespace muster::cli
