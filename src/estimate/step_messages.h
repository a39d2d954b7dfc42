// The bytes that a step's messages carry, by axis and operation, in closed form: docs/parallelism.md,
// docs/context.md and docs/zero.md derive them. A rehearsal counts the messages of the program itself;
// tests/ranks/doctor_test.cpp holds the two together.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spec/config/job.h"
#include "spec/mesh/mesh.h"

namespace muster::estimate {

struct StepMessages {
  std::string axis, op;  // as the record tells them: "shard+context", "all_gather"
  int64_t bytes = 0;     // payload on one rank: the larger tensor of each operation
};

// How the record tells a span: as the axis that has the same ranks, or as the first span that has.
std::string told(const spec::Mesh& mesh, spec::Span span);

// Of a job whose layout is resolved. Padding of buckets is left out, and so it is that ranks which share
// states sum unequal parts of what is partial on the tensor axis: it counts their mean. Nothing where
// layout.recompute is a budget: what it computes again is no closed form.
std::optional<std::vector<StepMessages>> step_messages(const spec::Job& job);

}  // namespace muster::estimate
