#include "spec/mesh/local_shape.h"

#include <algorithm>

#include "base/error.h"

namespace muster::spec {

namespace {

// Of one block of a sharded dim: how much of it is a slice.
int64_t slice_size(const ParameterRow& row, const Mesh& mesh, Axis axis) {
  const AxisPlacement& placement = row.placement[axis];
  const int64_t size = row.shape[static_cast<size_t>(placement.dim)], ranks = mesh.size(axis);
  const int64_t slices = placement.slices(ranks), parts = placement.blocks * slices;
  MUSTER_CHECK(ranks % slices == 0 && (placement.pads || size % parts == 0),
               "{}: dim {} of {} in {} blocks and {} pieces over {} {} ranks", row.name, placement.dim, size,
               placement.blocks, placement.pieces, ranks, to_string(axis));
  return (size + parts - 1) / parts;
}

}  // namespace

std::vector<int64_t> local_shape(const ParameterRow& row, const Mesh& mesh) {
  std::vector<int64_t> shape = row.shape;
  for (Axis axis : kAxes) {
    const AxisPlacement& placement = row.placement[axis];
    if (placement.kind != AxisPlacement::Kind::shard) continue;
    shape[static_cast<size_t>(placement.dim)] = placement.blocks * slice_size(row, mesh, axis);
  }
  return shape;
}

bool is_split(const ParameterRow& row, const Mesh& mesh, Axis axis) {
  const AxisPlacement& placement = row.placement[axis];
  return placement.kind == AxisPlacement::Kind::shard && placement.slices(mesh.size(axis)) > 1;
}

int64_t copies(const ParameterRow& row, const Mesh& mesh, Axis axis) {
  return row.placement[axis].copies(mesh.size(axis));
}

LocalPart local_part(const ParameterRow& row, const Mesh& mesh, int64_t rank) {
  LocalPart part{0, row.shape.at(0), {{0, 0, row.shape.at(0)}}};
  bool is_cut = false;
  for (Axis axis : kAxes) {
    if (!is_split(row, mesh, axis)) continue;
    MUSTER_CHECK(!is_cut, "{} is split over two axes", row.name);
    is_cut = true;
    const AxisPlacement& placement = row.placement[axis];
    const int64_t block = row.shape.at(static_cast<size_t>(placement.dim)) / placement.blocks;
    const int64_t size = slice_size(row, mesh, axis);
    const int64_t first = mesh.coordinate(rank, axis) / copies(row, mesh, axis) * size;
    const int64_t here = std::clamp<int64_t>(block - first, 0, size);
    part = {placement.dim, placement.blocks * size, {}};
    for (int64_t at = 0; at < placement.blocks && here > 0; ++at)
      part.runs.push_back({at * size, at * block + first, here});
  }
  return part;
}

Piece local_piece(const ParameterRow& row, const Mesh& mesh, int64_t rank) {
  LocalPart part = local_part(row, mesh, rank);
  MUSTER_CHECK(part.dim == 0 || padding_elements(row, mesh, rank) == 0, "{} has padding inside", row.name);
  return Piece(row.shape, {part.dim, std::move(part.runs)});
}

int64_t padding_elements(const ParameterRow& row, const Mesh& mesh, int64_t rank) {
  const LocalPart part = local_part(row, mesh, rank);
  int64_t padding = part.size;
  for (const IndexRun& run : part.runs) padding -= run.size;
  return padding * (row.elements() / row.shape[static_cast<size_t>(part.dim)]);
}

}  // namespace muster::spec
