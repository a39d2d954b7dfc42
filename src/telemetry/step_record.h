// The step record: what one step of one rank did, in program order. A rehearsal and a measured run both leave
// one, and `verify` compares them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace muster::telemetry {

// What an allocation is for. `scratch` is memory that a library operator takes inside itself,
// `host_optimizer` the optimizer's state where it does not live on the device. A rank has two accounts, the
// device's and the host's; on a machine without devices both are of the same memory.
enum class Category : int {
  parameters = 0,
  master_parameters,
  gradients,
  optimizer,
  activations,
  temporary,
  communication,
  input,
  scratch,
  other,
  host_optimizer
};
constexpr int kCategoryCount = 11;
const char* to_string(Category category);
// Lives from step to step: parameters, master parameters, gradients, optimizer.
bool is_persistent(Category category);
// Counts in the device's account, that a peak is of: all but scratch and what lives on the host.
bool is_on_device(Category category);

struct OpEvent {
  std::string name;                       // "matmul", "rms_norm", ...
  std::string where;                      // "layer 3 attention"
  std::string phase;                      // "forward", "backward", "update"
  double flops = 0;                       // hardware FLOPs that it ran
  int64_t bytes = 0;                      // bytes read and written
  double start_seconds = 0, seconds = 0;  // 0 in a rehearsal
  // How many memory events there were when it ended: ties the two lists, so that a peak has a place. An
  // allocation belongs to the operator that ends next, for which it was made.
  size_t memory_after = 0;
};

struct MessageEvent {
  std::string axis;   // "data"
  std::string op;     // "all_reduce"
  int64_t bytes = 0;  // payload: the tensor's bytes on this rank
  int64_t group_size = 1;
  uint64_t sequence = 0;  // per group
  // Where it stands among the operators: how many had ended when it was issued, and when its result was asked
  // for. What lies between is the work beside which it travels.
  size_t issued_after = 0, needed_after = 0;
  // Times; 0 in a rehearsal. done: all of it had arrived, asked for or not. exposed: how long the compute
  // thread stood still for it: handing it over, waiting for it, and adding up what arrived.
  double issued_seconds = 0, done_seconds = 0, needed_seconds = 0, exposed_seconds = 0;
};

// One change of live memory: bytes > 0 allocated, < 0 freed.
struct MemoryEvent {
  int64_t bytes = 0;
  Category category = Category::other;
};

// One stretch of a timeline, for traces.
struct Span {
  std::string name;
  std::string track;  // "compute", "data axis", "host"
  double start_seconds = 0, seconds = 0;
};

struct MessageTotal {
  std::string axis, op;
  int64_t count = 0, bytes = 0;
  bool operator==(const MessageTotal&) const = default;
};

struct StepRecord {
  std::vector<OpEvent> ops;
  std::vector<MessageEvent> messages;
  std::vector<MemoryEvent> memory;
  std::vector<Span> spans;
  int64_t live_at_start[kCategoryCount] = {};  // bytes by category when recording began

  double hardware_flops() const;
  // Sums by (axis, op), in order of first appearance.
  std::vector<MessageTotal> message_totals() const;
  // The operator for which memory[event] happened ("layer 3 attention, matmul, backward"); empty where the
  // operators carry no memory_after.
  std::string place_of(size_t event) const;
};

// The largest sum of live bytes on the device, where in the step it was first reached, and what was live then
// (of all categories, each in its own entry).
struct Peak {
  int64_t bytes = 0;
  size_t event = 0;       // index into memory of the allocation that reached it
  bool at_start = false;  // already there when recording began: no event reached it
  int64_t by_category[kCategoryCount] = {};
};
Peak find_peak(const StepRecord& record);
// The largest sum of live scratch.
int64_t scratch_peak(const StepRecord& record);

// Compact and self-describing: one row of numbers an event, under named columns, names in one list. A record
// from JSON is untrusted: WorldError(data) names `source` and the row.
Json to_json(const StepRecord& record);
StepRecord step_record_from_json(const Json& json, const std::string& source);

}  // namespace muster::telemetry
