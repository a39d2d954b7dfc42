// Elements of a logical tensor that are held together: in a rank's memory, or in a file of a checkpoint. A
// piece is a part along one dim (what a tensor axis leaves a rank), and of that part, flattened row-major,
// the elements [begin, end) (what sharded states leave a rank). Saves, loads under another layout, weights in
// and out: all of them ask here where an element lies.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster::spec {

// Indices of one dim: [local, local + size) of the part are [global, global + size) of the whole.
struct IndexRun {
  int64_t local = 0, global = 0, size = 0;
  auto operator<=>(const IndexRun&) const = default;
};
// A part is whole in every dim but `dim`, of which it has the runs, in order.
struct Part {
  int dim = 0;
  std::vector<IndexRun> runs;
  auto operator<=>(const Part&) const = default;
};

// Elements [local, local + count) of a piece are [global, global + count) of the whole tensor, both flat.
struct FlatRun {
  int64_t local = 0, global = 0, count = 0;
  bool operator==(const FlatRun&) const = default;
};

class Piece {
 public:
  // The whole of a tensor; a shape of no dims is one element.
  explicit Piece(std::vector<int64_t> shape);
  // A part of it, whole in its own order. A part that check_part() refuses is a Bug.
  Piece(std::vector<int64_t> shape, Part part);

  // Elements [first, last) of this piece, as a piece of the same tensor.
  Piece narrow(int64_t first, int64_t last) const;

  const std::vector<int64_t>& shape() const { return shape_; }  // of the whole tensor
  const Part& part() const { return part_; }
  int64_t begin() const { return begin_; }  // in the part, flat
  int64_t end() const { return end_; }
  int64_t elements() const { return end_ - begin_; }
  int64_t part_elements() const { return outer_ * held_ * inner_; }
  // As a tensor: the part's shape where the piece is a whole part, flat where it is not.
  std::vector<int64_t> local_shape() const;

  // What lies together from element `local` on. A piece has its runs in the same order here and in the whole.
  FlatRun run_from(int64_t local) const;
  // The first element that is, in the whole, at `global` or after it; elements() where there is none.
  int64_t find(int64_t global) const;

 private:
  std::vector<int64_t> shape_;
  Part part_;
  // The tensor as outer x extent x inner, of whose middle the part holds `held` indices, by runs.
  int64_t outer_ = 1, extent_ = 1, inner_ = 1, held_ = 1;
  std::vector<IndexRun> runs_;
  int64_t begin_ = 0, end_ = 0;
};

// What is wrong with a part of a tensor of this shape, for one that comes from outside; empty: nothing. The
// shape's product fits 63 bits.
std::string check_part(const std::vector<int64_t>& shape, const Part& part);

// Elements that two pieces of one tensor share.
struct CopyRun {
  int64_t source = 0, destination = 0, count = 0;
  bool operator==(const CopyRun&) const = default;
};

// The copies that bring into `to` what `from` has of it, one by one, ascending on both sides. What lies
// between is leapt over: the cost is that of the runs which are shared.
class CopyRuns {
 public:
  // Both outlive this; pieces of tensors of other shapes are a Bug.
  CopyRuns(const Piece& from, const Piece& to);
  std::optional<CopyRun> next();

 private:
  std::optional<CopyRun> next_of_one_part();
  const Piece& from_;
  const Piece& to_;
  int64_t source_ = 0, destination_ = 0;
  bool same_part_;
};

// Why these pieces, of one tensor, do not hold each of its elements exactly once; empty: they do. Pieces of
// no elements are passed over. All must be cut along one dim.
std::string check_tiling(const std::vector<int64_t>& shape, const std::vector<Piece>& pieces);

}  // namespace muster::spec
