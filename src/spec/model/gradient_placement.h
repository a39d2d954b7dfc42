// How the gradient that backward leaves on a rank stands to the logical gradient, before anything is reduced.
#pragma once
#include "spec/config/job.h"
#include "spec/model/parameter_table.h"

namespace muster::spec {

// On the data axis every rank sees other tokens: partial. On the tensor axis a shard's gradient is whole,
// save that ranks which hold the same slice (key-value heads) each have the share of their own queries: kind
// shard, partial among its copies. What is whole on every rank of that axis lies outside of the split
// products (norms, biases added after a sum, learned positions): those ranks see the same rows, and their
// gradients are replicas; or, where sequence parallelism shares the rows, each its own: partial.
Placement gradient_placement(const ParameterRow& row, const LayoutConfig& layout);

// The gradients that must be summed over the tensor axis once backward is done.
bool is_partial_over_tensor(const ParameterRow& row, const LayoutConfig& layout);

}  // namespace muster::spec
