// Who talks to whom in a job's mesh, over which links, and how much a step.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "estimate/step_messages.h"
#include "spec/hardware/hardware.h"

namespace muster::cli {

// The groups that one kind of message runs in.
struct Talk {
  std::string axis;                          // as messages are told: "tensor", "data+context"
  std::vector<std::vector<int64_t>> groups;  // each once, in order of their first rank
  std::string link;  // the slowest that one of them needs: "scale_up", "scale_out"; "unknown"
  std::optional<double> bandwidth_bytes_per_second;
};

// The axes longer than one, innermost first, and the spans of them that have messages of their own. Ranks
// fill nodes in order.
std::vector<Talk> who_talks(const spec::Mesh& mesh, const spec::Hardware& hardware);

// [{"axis", "groups", "link", "bandwidth_bytes_per_second", "messages": [{"op", "bytes"}]}]; a null where
// something is not known.
Json to_json(const std::vector<Talk>& talks,
             const std::optional<std::vector<estimate::StepMessages>>& messages);
// As a table for a terminal.
std::string picture(const std::vector<Talk>& talks,
                    const std::optional<std::vector<estimate::StepMessages>>& messages);

}  // namespace muster::cli
