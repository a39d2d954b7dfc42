// A layout against a world.
#include "base/error.h"
#include "spec/config/job.h"
#include "spec/config/rules.h"

namespace muster::spec {
namespace {

// The data axis takes what the other axes leave.
void fill_data(Job& job, int64_t world_size) {
  LayoutConfig& layout = job.layout;
  const int64_t others = layout.tensor * layout.context * layout.pipeline;
  if (layout.data != 0 || world_size % others != 0) return;
  layout.data = world_size / others;
  job.origins["layout.data"] = fmt::format("a world of {}", world_size);
}

void check_world(Rules& rules, int64_t world_size) {
  const LayoutConfig& layout = rules.job().layout;
  const int64_t others = layout.tensor * layout.context * layout.pipeline;
  if (layout.data == 0) {
    rules.require(
        false, {"layout.data"},
        fmt::format(
            "a world of {} ranks is not a multiple of tensor x context x pipeline = {} x {} x {} = {}",
            world_size, layout.tensor, layout.context, layout.pipeline, others),
        fmt::format("start a multiple of {} processes", others));
    return;
  }
  rules.require(
      layout.data * others == world_size, {"layout.data"},
      fmt::format("data x tensor x context x pipeline = {} x {} x {} x {} = {} ranks, and the world has {}",
                  layout.data, layout.tensor, layout.context, layout.pipeline, layout.data * others,
                  world_size),
      fmt::format("start {} processes, or take what the world leaves: --set layout.data=default",
                  layout.data * others));
}

}  // namespace

void resolve_layout(Job& job, int64_t world_size) {
  if (world_size < 1)
    throw UserError({"world size", std::to_string(world_size), "must be at least 1", "start a process"});
  fill_data(job, world_size);
  Problems problems;
  Rules rules(job, problems);
  check_world(rules, world_size);
  if (problems.empty()) check_divisions(rules);
  problems.throw_if_any();
}

int64_t micro_batches(const Job& job) {
  const int64_t sequences = job.layout.data * job.training.micro_batch_size;
  MUSTER_CHECK(job.layout.data >= 1 && job.training.global_batch_size % sequences == 0,
               "{} sequences over {} ranks of {}: the layout is not resolved", job.training.global_batch_size,
               job.layout.data, job.training.micro_batch_size);
  return job.training.global_batch_size / sequences;
}

std::string describe(const LayoutConfig& layout) {
  std::string text = fmt::format("data {}", layout.data);
  for (const auto& [name, size] : {std::pair("tensor", layout.tensor),
                                   {"context", layout.context},
                                   {"pipeline", layout.pipeline},
                                   {"replicas", layout.replicate}})
    if (size > 1) text += fmt::format(", {} {}", name, size);
  if (layout.sequence_parallel) text += ", sequence parallel";
  text += fmt::format(", ZeRO {}", layout.zero);
  if (layout.offload == "host") text += ", optimizer state on the host";
  if (layout.offload == "file") text += ", optimizer state in a file";
  return text;
}

}  // namespace muster::spec
