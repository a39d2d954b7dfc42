// Bubbles, efficiency and micro-batches in flight of pipeline schedules.
// Sources: Huang et al., "GPipe", NeurIPS 2019, section 2.3; Narayanan et al., "Efficient large-scale
// language model training on GPU clusters using Megatron-LM", SC 2021, section 2.2; Qi et al., "Zero bubble
// pipeline parallelism", ICLR 2024, section 2. True for equal stages, a backward of twice the forward, and
// messages that cost nothing: the timeline and the replay have neither limit.
#pragma once
#include <cstdint>
#include <vector>

namespace muster::estimate {

enum class Schedule { gpipe, one_f_one_b, interleaved, zb_h1 };
const char* to_string(Schedule schedule);

struct PipelineShape {
  int64_t stages = 1;
  int64_t micro_batches = 1;
  int64_t chunks = 1;  // model chunks on a stage; above 1 for `interleaved` alone
};

// Idle time of a stage in units of one micro-batch's forward and backward: (p-1)/v; a third of p-1 for zb-h1,
// whose weight gradients (as long as a forward) fill the rest: (p-1)(F + B - W), for m >= p.
double bubble_micro_batches(Schedule schedule, const PipelineShape& shape);

// The two conventions of "the bubble". Of capacity: (p-1)/(m+p-1), the share of stage-time that is idle.
// Over ideal: (p-1)/m, idle time against useful time (SC 2021). Both with (p-1)/v when interleaved.
double bubble_of_capacity(Schedule schedule, const PipelineShape& shape);
double bubble_over_ideal(Schedule schedule, const PipelineShape& shape);
// 1 - bubble_of_capacity.
double pipeline_efficiency(Schedule schedule, const PipelineShape& shape);

// The least number of micro-batches with at least `efficiency` (0 < efficiency < 1): e/(1-e) (p-1)/v.
int64_t micro_batches_for(double efficiency, Schedule schedule, const PipelineShape& shape);

// Most activations alive at once on a stage, in chunks (1/v of a stage's layers, of one micro-batch).
//   gpipe m; 1f1b min(p - stage, m); zb-h1 min(p, m) on every stage (section 2.3: the same memory as 1F1B's
//   first stage); interleaved min(2(p - stage - 1) + (v-1)p + 1, mv) (SC 2021's implementation).
int64_t chunks_in_flight(Schedule schedule, const PipelineShape& shape, int64_t stage);

// Seconds of a step over unequal stages: sum(t) + (m-1) max(t), t forward and backward of one micro-batch.
// Exact for gpipe with backward in proportion to forward; 1f1b hides part of the stages behind the slowest
// and can be shorter: its timeline says by how much.
double unbalanced_step_seconds(const std::vector<double>& stage_seconds, int64_t micro_batches);
// Useful stage-time over stages * step: m sum(t) / (p * step).
double unbalanced_efficiency(const std::vector<double>& stage_seconds, int64_t micro_batches);

}  // namespace muster::estimate
