#include "estimate/layout_memory.h"

#include <algorithm>
#include <tuple>

#include "estimate/shard.h"

namespace muster::estimate {
namespace {

int64_t over(int64_t whole, int64_t ranks) {
  return shard(whole, ranks).elements;
}

int64_t layers_on_chunk(const MemoryModel& model, const Layout& layout) {
  return over(model.layers, layout.pipeline * layout.chunks);
}

// Enough micro-batches to fill: p, and whole groups of p for interleaved chunks.
PipelineShape pipeline_of(const Layout& layout) {
  const int64_t filled = layout.pipeline * layout.chunks;
  return {layout.pipeline, layout.micro_batches > 0 ? layout.micro_batches : filled, layout.chunks};
}

LayerShape on_context_rank(LayerShape shape, const Layout& layout) {
  shape.sequence /= layout.context;
  return shape;
}

// Least disruptive first.
auto disruption(const Layout& layout) {
  return std::tuple(layout.tensor * layout.pipeline, layout.recompute, layout.zero, layout.pipeline);
}

// Every ZeRO stage and recomputation of one data x tensor x pipeline.
std::vector<Layout> variants(const Layout& shape) {
  std::vector<Layout> list;
  for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
    for (int zero = 0; zero <= (shape.data > 1 ? 3 : 0); ++zero) {
      Layout& layout = list.emplace_back(shape);
      layout.recompute = recompute;
      layout.zero = zero;
    }
  return list;
}

}  // namespace

StageParameters parameters_on_stage(const MemoryModel& model, const Layout& layout, int64_t stage) {
  const ParameterCount& count = model.parameters;
  const bool first = stage == 0, last = stage == layout.pipeline - 1;
  const int64_t head = model.tied && !first ? count.embedding : count.head;
  const int64_t dense =
      over(count.dense, layout.pipeline) + (first ? count.embedding : 0) + (last ? head : 0);
  return {over(dense, layout.tensor),
          over(over(count.expert, layout.pipeline), layout.expert * layout.expert_tensor),
          over(count.replicated, layout.pipeline)};
}

DeviceMemory memory_on_stage(const MemoryModel& model, const BytesPerParameter& bytes, const Layout& layout,
                             int64_t stage) {
  const StageParameters held = parameters_on_stage(model, layout, stage);
  const int64_t layers = over(model.layers, layout.pipeline);
  const int64_t replicas = layout.dense_replicas();
  DeviceMemory memory;
  memory.states = model_states(held.dense + held.replicated, bytes, layout.zero, replicas) +
                  model_states(held.expert, bytes, layout.zero, layout.expert_replicas());
  if (layers == 0) return memory;
  memory.gathered = gathered_bytes(held.dense + held.replicated, layers, bytes, layout.zero, replicas) +
                    gathered_bytes(held.expert, layers, bytes, layout.zero, layout.expert_replicas());

  const LayerShape shape = on_context_rank(model.shape, layout);
  const int64_t chunks = chunks_in_flight(layout.schedule, pipeline_of(layout), stage);
  memory.in_flight = static_cast<double>(chunks) / static_cast<double>(layout.chunks);
  memory.activations =
      chunks * layers_on_chunk(model, layout) *
      activation_bytes_per_layer(shape, layout.tensor, layout.sequence_parallel, layout.recompute);
  if (stage == layout.pipeline - 1 && model.vocab > 0)
    memory.head = head_bytes(shape, model.vocab, layout.tensor);
  return memory;
}

int64_t total_bytes(const DeviceMemory& memory, int64_t reserve_bytes) {
  return memory.state() + memory.activations + std::max(reserve_bytes, memory.head);
}

int64_t fullest_stage(const MemoryModel& model, const BytesPerParameter& bytes, const Layout& layout,
                      int64_t reserve_bytes) {
  int64_t fullest = 0, most = -1;
  for (int64_t stage = 0; stage < layout.pipeline; ++stage) {
    const int64_t total = total_bytes(memory_on_stage(model, bytes, layout, stage), reserve_bytes);
    if (total > most) most = total, fullest = stage;
  }
  return fullest;
}

std::vector<Layout> suggest_layouts(const MemoryModel& model, const BytesPerParameter& bytes, int64_t devices,
                                    int64_t devices_per_node, int64_t device_bytes, int64_t reserve_bytes) {
  std::vector<Layout> fitting;
  for (int64_t tensor = 1; tensor <= std::min(devices, devices_per_node); ++tensor) {
    if (devices % tensor != 0 || model.shape.heads % tensor != 0) continue;
    for (int64_t pipeline = 1; pipeline <= std::min(devices / tensor, model.layers); ++pipeline) {
      if (devices / tensor % pipeline != 0 || model.layers % pipeline != 0) continue;
      Layout shape;
      shape.data = devices / tensor / pipeline;
      shape.tensor = tensor;
      shape.pipeline = pipeline;
      for (const Layout& layout : variants(shape)) {
        const int64_t stage = fullest_stage(model, bytes, layout, reserve_bytes);
        if (total_bytes(memory_on_stage(model, bytes, layout, stage), reserve_bytes) <= device_bytes)
          fitting.push_back(layout);
      }
    }
  }
  std::stable_sort(fitting.begin(), fitting.end(),
                   [](const Layout& a, const Layout& b) { return disruption(a) < disruption(b); });
  return fitting;
}

}  // namespace muster::estimate
