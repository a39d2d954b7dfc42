// The part of a logical parameter that one rank holds: its shape, and where it lies in the whole.
#pragma once
#include <cstdint>
#include <vector>

#include "spec/mesh/mesh.h"
#include "spec/mesh/piece.h"
#include "spec/model/parameter_table.h"

namespace muster::spec {

// The global shape with each sharded dim divided by its axis, padding with it. A dim that does not divide as
// its placement asks is a Bug: validation came first.
std::vector<int64_t> local_shape(const ParameterRow& row, const Mesh& mesh);

// What `rank` holds of the parameter, before any axis shards it flat. It is whole in every dim but `dim`, in
// which it has `size` indices: the runs, in order, and then padding. A part that is nothing but padding has
// no runs.
struct LocalPart {
  int dim = 0;
  int64_t size = 0;
  std::vector<IndexRun> runs;
};
LocalPart local_part(const ParameterRow& row, const Mesh& mesh, int64_t rank);
// The same as a piece. Where the rank's tensor has padding, that lies behind the piece's elements.
Piece local_piece(const ParameterRow& row, const Mesh& mesh, int64_t rank);
// Elements of this rank's part that stand for none of the whole.
int64_t padding_elements(const ParameterRow& row, const Mesh& mesh, int64_t rank);
// Whether ranks of `axis` hold different slices of the parameter.
bool is_split(const ParameterRow& row, const Mesh& mesh, Axis axis);
// How many ranks of `axis` hold the slice that a rank holds: neighbours.
int64_t copies(const ParameterRow& row, const Mesh& mesh, Axis axis);

}  // namespace muster::spec
