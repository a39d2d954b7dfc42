#include "spec/mesh/local_shape.h"

#include "base/error.h"

namespace muster::spec {

std::vector<int64_t> local_shape(const ParameterRow& row, const Mesh& mesh) {
  std::vector<int64_t> shape = row.shape;
  for (Axis axis : kAxes) {
    const AxisPlacement& placement = row.placement[axis];
    if (placement.kind != AxisPlacement::Kind::shard) continue;
    int64_t& size = shape[static_cast<size_t>(placement.dim)];
    MUSTER_CHECK(size % (placement.blocks * mesh.size(axis)) == 0,
                 "{}: dim {} of {} in {} blocks over {} {} ranks", row.name, placement.dim, size,
                 placement.blocks, mesh.size(axis), to_string(axis));
    size /= mesh.size(axis);
  }
  return shape;
}

bool is_split(const ParameterRow& row, const Mesh& mesh, Axis axis) {
  return mesh.size(axis) > 1 && row.placement[axis].kind == AxisPlacement::Kind::shard;
}

LocalPart local_part(const ParameterRow& row, const Mesh& mesh, int64_t rank) {
  LocalPart part{0, {{0, 0, row.shape.at(0)}}};
  for (Axis axis : kAxes) {
    if (!is_split(row, mesh, axis)) continue;
    MUSTER_CHECK(part.runs.front().size == row.shape.at(0) && part.dim == 0, "{} is split over two axes",
                 row.name);
    const AxisPlacement& placement = row.placement[axis];
    const int64_t block = row.shape.at(static_cast<size_t>(placement.dim)) / placement.blocks;
    const int64_t size = block / mesh.size(axis), first = mesh.coordinate(rank, axis) * size;
    part = {placement.dim, {}};
    for (int64_t at = 0; at < placement.blocks; ++at)
      part.runs.push_back({at * size, at * block + first, size});
  }
  return part;
}

}  // namespace muster::spec
