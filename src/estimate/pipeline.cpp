#include "estimate/pipeline.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace muster::estimate {
namespace {

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

const char* to_string(Schedule schedule) {
  constexpr const char* names[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};
  return names[static_cast<int>(schedule)];
}

double bubble_micro_batches(Schedule schedule, const PipelineShape& shape) {
  const double others = static_cast<double>(shape.stages - 1);
  if (schedule == Schedule::zb_h1) return others / 3;
  return others / static_cast<double>(shape.chunks);
}

double bubble_of_capacity(Schedule schedule, const PipelineShape& shape) {
  const double idle = bubble_micro_batches(schedule, shape);
  return idle / (static_cast<double>(shape.micro_batches) + idle);
}

double bubble_over_ideal(Schedule schedule, const PipelineShape& shape) {
  return bubble_micro_batches(schedule, shape) / static_cast<double>(shape.micro_batches);
}

double pipeline_efficiency(Schedule schedule, const PipelineShape& shape) {
  return 1 - bubble_of_capacity(schedule, shape);
}

int64_t micro_batches_for(double efficiency, Schedule schedule, const PipelineShape& shape) {
  // An exact whole answer must not be pushed up by the last bit of the division.
  const double exact = efficiency / (1 - efficiency) * bubble_micro_batches(schedule, shape);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(exact * (1 - 1e-12))));
}

int64_t chunks_in_flight(Schedule schedule, const PipelineShape& shape, int64_t stage) {
  const int64_t p = shape.stages, m = shape.micro_batches, v = shape.chunks;
  switch (schedule) {
    case Schedule::gpipe:
      return m;
    case Schedule::one_f_one_b:
      return std::min(p - stage, m);
    case Schedule::zb_h1:
      return std::min(p, m);
    case Schedule::interleaved:
      return std::min(2 * (p - stage - 1) + (v - 1) * p + 1, m * v);
  }
  return 0;
}

double unbalanced_step_seconds(const std::vector<double>& stage_seconds, int64_t micro_batches) {
  return sum(stage_seconds) + static_cast<double>(micro_batches - 1) *
                                  *std::max_element(stage_seconds.begin(), stage_seconds.end());
}

double unbalanced_efficiency(const std::vector<double>& stage_seconds, int64_t micro_batches) {
  const double useful = static_cast<double>(micro_batches) * sum(stage_seconds);
  return useful /
         (static_cast<double>(stage_seconds.size()) * unbalanced_step_seconds(stage_seconds, micro_batches));
}

}  // namespace muster::estimate
