// The memory of one device under a layout: states, gathered units, activations, logits. Sums the formulas of
// memory.h and activations.h over what a pipeline stage holds.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "estimate/activations.h"
#include "estimate/memory.h"
#include "estimate/parameters.h"
#include "estimate/pipeline.h"

namespace muster::estimate {

struct Layout {
  int64_t data = 1, tensor = 1, pipeline = 1, context = 1;
  int64_t expert = 1, expert_tensor = 1;  // carved out of data * context * tensor, never multiplied in
  int zero = 0;
  bool sequence_parallel = true;  // of the tensor group
  Recompute recompute = Recompute::none;
  Schedule schedule = Schedule::one_f_one_b;
  int64_t chunks = 1;
  int64_t micro_batches = 0;  // of a step on a data rank; 0: enough to fill the pipeline

  int64_t devices() const { return data * tensor * pipeline * context; }
  // Ranks that hold the same dense parameters, and the same experts: what ZeRO shards over.
  int64_t dense_replicas() const { return data * context; }
  int64_t expert_replicas() const { return data * context * tensor / (expert * expert_tensor); }
};

struct MemoryModel {
  ParameterCount parameters;
  bool tied = false;
  int64_t layers = 0;  // 0: unknown; then only states are
  int64_t vocab = 0;   // 0: unknown, no logits
  LayerShape shape;    // one micro-batch before any context sharding
};

// Parameters that a rank of a stage holds before ZeRO, by what divides them (CASES B104): dense matrices over
// tensor, routed experts over expert * expert_tensor, norms and routers over nothing; layers over the
// pipeline; the token table on the first stage, the head (also where it is tied, as a copy) on the last.
// Each divided term is rounded up.
struct StageParameters {
  int64_t dense = 0, expert = 0, replicated = 0;
  int64_t total() const { return dense + expert + replicated; }
};
StageParameters parameters_on_stage(const MemoryModel& model, const Layout& layout, int64_t stage);

// Bytes on one device.
struct DeviceMemory {
  ModelStates states;
  int64_t gathered = 0;     // whole units beside stage 3's shards
  int64_t activations = 0;  // of every layer and micro-batch in flight
  int64_t head = 0;         // the head's inputs and logits, on the last stage
  double in_flight = 0;     // micro-batches
  int64_t state() const { return states.total() + gathered; }
};
DeviceMemory memory_on_stage(const MemoryModel& model, const BytesPerParameter& bytes, const Layout& layout,
                             int64_t stage);

// What a device must have: state + activations + the reserve, which stands for logits, library workspaces and
// fragmentation; logits larger than the reserve count in full.
int64_t total_bytes(const DeviceMemory& memory, int64_t reserve_bytes);

// The stage whose total is the largest.
int64_t fullest_stage(const MemoryModel& model, const BytesPerParameter& bytes, const Layout& layout,
                      int64_t reserve_bytes);

// Layouts of `devices` devices that fit, least disruptive first. The order: how many ways the model itself is
// cut (tensor * pipeline), then recomputation (none, selective, full), then the ZeRO stage, then the
// pipeline. So a higher ZeRO stage comes before recomputation, recomputation before a tensor cut, a tensor
// cut before a pipeline. Tensor degrees divide the heads and stay in a node; pipelines divide the layers.
std::vector<Layout> suggest_layouts(const MemoryModel& model, const BytesPerParameter& bytes, int64_t devices,
                                    int64_t devices_per_node, int64_t device_bytes, int64_t reserve_bytes);

}  // namespace muster::estimate
