// A step as a list of actions. One walker runs it; the executor (tensors), the replay (clock), the validator
// and the drawing read the same list.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace muster::schedule {

enum class ActionKind {
  forward,        // micro_batch through this rank's layers
  backward,       // its gradients; on the last micro-batch, buckets are reduced as they become ready
  reduce_finish,  // wait for every bucket
  update          // the ordered update
};
const char* to_string(ActionKind kind);

struct Action {
  ActionKind kind = ActionKind::forward;
  int32_t micro_batch = 0;
  int32_t chunk = 0;
  bool last_backward = false;  // of this step: gradients are complete after it
  bool operator==(const Action&) const = default;
};

// One stage: F0 B0 F1 B1 ... , then the reductions' end and the update.
std::vector<Action> single_stage(int64_t micro_batches);

// "F0 B0 F1 B1* R U": one word an action, * marks the last backward. Parses back.
std::string to_text(const std::vector<Action>& actions);
std::vector<Action> from_text(const std::string& text);

// Throws Bug unless every micro-batch has one forward before one backward, exactly the last backward is
// marked, and reduce_finish and update close the list.
void validate(const std::vector<Action>& actions, int64_t micro_batches);

}  // namespace muster::schedule
