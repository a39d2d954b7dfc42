// A pipeline schedule drawn on a clock: what each stage runs and when. Messages cost nothing here.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "estimate/pipeline.h"

namespace muster::estimate {

// F: forward. B: backward, or its input half under zb-h1, whose weight half is W.
enum class Work : char { forward = 'F', backward = 'B', weight = 'W' };

struct Task {
  Work work = Work::forward;
  int64_t micro_batch = 0;
  int64_t chunk = 0;
  double start = 0, end = 0;
};

// The order in which a stage runs its tasks; times not set. `interleaved` needs micro-batches that divide by
// the stages (a Bug otherwise: the caller says so to the user).
std::vector<Task> stage_order(Schedule schedule, const PipelineShape& shape, int64_t stage);

struct Timeline {
  std::vector<std::vector<Task>> stages;
  double end = 0;
  double busy(int64_t stage) const;
  // 1 - idle share, over all stages.
  double efficiency() const;
  // Most chunks whose forward has ended its start and whose last gradient has not ended, on a stage.
  int64_t most_in_flight(int64_t stage) const;
};

// Runs every stage's order, each task as soon as its stage and its input are free. `stage_times[i]` is the
// forward and backward of one micro-batch on stage i in any unit: a third forward, the rest backward.
Timeline run_pipeline(Schedule schedule, const PipelineShape& shape, const std::vector<double>& stage_times);

// One line a stage; a cell is the shortest forward. "F3" begins a task (under chunks, "F3b" is chunk 1),
// "=" continues it, "." is idle. Cut at `columns` characters, saying so.
std::string draw(const Timeline& timeline, size_t columns);

}  // namespace muster::estimate
