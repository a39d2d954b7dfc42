#include "spec/mesh/local_shape.h"

#include "base/error.h"

namespace muster::spec {

std::vector<int64_t> local_shape(const ParameterRow& row, const Mesh& mesh) {
  std::vector<int64_t> shape = row.shape;
  for (Axis axis : kAxes) {
    const AxisPlacement& placement = row.placement[axis];
    if (placement.kind != AxisPlacement::Kind::shard) continue;
    int64_t& size = shape[static_cast<size_t>(placement.dim)];
    MUSTER_CHECK(size % mesh.size(axis) == 0, "{}: dim {} of {} over {} {} ranks", row.name, placement.dim,
                 size, mesh.size(axis), to_string(axis));
    size /= mesh.size(axis);
  }
  return shape;
}

}  // namespace muster::spec
