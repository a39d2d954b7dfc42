// The part of a logical parameter that one rank holds.
#pragma once
#include <cstdint>
#include <vector>

#include "spec/mesh/mesh.h"
#include "spec/model/parameter_table.h"

namespace muster::spec {

// The global shape with each sharded dim divided by its axis. A dim that does not divide is a Bug: validation
// came first.
std::vector<int64_t> local_shape(const ParameterRow& row, const Mesh& mesh);

}  // namespace muster::spec
