// Where a run stands in its data: one counter. The epoch, the place in it, and the learning rate follow from
// it, so no second number can disagree.
#pragma once
#include <cstdint>

#include "base/json.h"

namespace muster::data {

struct Cursor {
  int64_t next_sample = 0;  // global sample index, over all epochs, of the next sequence to be trained on

  // The first global sample of update `step` (from 1).
  static Cursor before_step(int64_t step, int64_t global_batch_size) {
    return {(step - 1) * global_batch_size};
  }
  void advance(int64_t samples) { next_sample += samples; }
  int64_t epoch(int64_t windows) const { return next_sample / windows; }
  bool operator==(const Cursor&) const = default;
};

Json to_json(const Cursor& cursor);
// Throws WorldError(data) naming `name` where the counter is missing or negative.
Cursor cursor_from_json(const Json& json, const std::string& name);

}  // namespace muster::data
