// From elements as they were read to where they belong: the one place in which a load, of a checkpoint or of
// published weights, moves elements between layouts.
#pragma once
#include <ATen/core/Tensor.h>

#include <string_view>

#include "checkpoint/dtype.h"
#include "spec/mesh/piece.h"

namespace muster::checkpoint {

// A tensor in memory, and which elements of a logical tensor it holds.
struct Destination {
  Destination(at::Tensor whole);  // all of them
  Destination(at::Tensor held, spec::Piece piece) : tensor(std::move(held)), piece(std::move(piece)) {}
  at::Tensor tensor;  // contiguous, in the piece's order, on any device and of any dtype
  spec::Piece piece;
};

// Whether two pieces of one tensor have an element in common.
bool share(const spec::Piece& a, const spec::Piece& b);

// Brings what `from` has of it into `to`, converted to its dtype. `bytes` are the elements of `from`, of
// `dtype`, aligned to it. Memory beside both: a copy of what moves where the device is another.
void deliver(const spec::Piece& from, DType dtype, std::string_view bytes, const Destination& to);

}  // namespace muster::checkpoint
