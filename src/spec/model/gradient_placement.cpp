#include "spec/model/gradient_placement.h"

namespace muster::spec {

Placement gradient_placement(const ParameterRow& row, const LayoutConfig& layout) {
  Placement gradient = row.placement;
  if (layout.data > 1) gradient[Axis::data] = AxisPlacement::partial();
  AxisPlacement& tensor = gradient[Axis::tensor];
  const bool is_whole = tensor.kind == AxisPlacement::Kind::replicate;
  if (is_whole && layout.tensor > 1 && layout.sequence_parallel) tensor = AxisPlacement::partial();
  return gradient;
}

bool is_partial_over_tensor(const ParameterRow& row, const LayoutConfig& layout) {
  const AxisPlacement gradient = gradient_placement(row, layout)[Axis::tensor];
  if (gradient.kind == AxisPlacement::Kind::shard) return gradient.copies(layout.tensor) > 1;
  return gradient.kind == AxisPlacement::Kind::partial;
}

}  // namespace muster::spec
