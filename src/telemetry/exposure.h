// Which messages of a step its computation did not hide, and why not, worked out from its record alone.
#pragma once
#include <string>
#include <vector>

#include "telemetry/step_record.h"

namespace muster::telemetry {

struct ExposedPart {
  std::string why;    // to_string(Why)
  int64_t count = 0;  // messages
  double seconds = 0;
  std::string where;  // the operator that one of them held up for longest: "layer 3 mlp, matmul, forward"
};

// The messages of one kind in one step of one rank.
struct Exposure {
  std::string axis, op;
  int64_t count = 0;
  double link_seconds = 0;         // from issue to arrival, summed
  double exposed_seconds = 0;      // that the rank stood still for them
  std::vector<ExposedPart> parts;  // the most seconds first
  // Of the time on the link; 0 where nothing took time.
  double exposed_share() const { return link_seconds > 0 ? exposed_seconds / link_seconds : 0; }
};

// A matrix product or attention is what a message can travel beside: an operator with FLOPs.
enum class Why {
  first,    // nothing had been computed in the step when it was needed: the first gather
  last,     // nothing was left to compute when it was issued: the last bucket
  at_once,  // no operator with FLOPs stood between its issue and its need
  longer    // it took longer than the operators in between
};
// "the step's first: nothing had been computed yet"
const char* to_string(Why why);

// By (axis, op), in order of first appearance; the record of a measured step.
std::vector<Exposure> exposures(const StepRecord& record);

}  // namespace muster::telemetry
