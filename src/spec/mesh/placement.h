// How one logical tensor lies on the axes of a mesh.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::spec {

enum class Axis : int { data = 0, tensor, context, pipeline, expert };
constexpr int kAxisCount = 5;
constexpr std::array<Axis, kAxisCount> kAxes = {Axis::data, Axis::tensor, Axis::context, Axis::pipeline,
                                                Axis::expert};
// The axes whose sizes multiply to the world; expert shares their ranks.
constexpr std::array<Axis, kAxisCount - 1> kWorldAxes = {Axis::tensor, Axis::context, Axis::data,
                                                         Axis::pipeline};
std::string to_string(Axis axis);
// Throws UserError naming `field`.
Axis parse_axis(const std::string& name, const std::string& field);

// Ranks that talk over more than one axis, or over a part of one. The data axis is `replicate` replicas of
// shards, the shards innermost.
enum class Span : int {
  tokens = 0,  // data and context: ranks with the same parameters that see other tokens
  shard,       // of those, the ranks that together hold one copy of a sharded state
  replicate    // the ranks with the same shard in other copies
};
constexpr int kSpanCount = 3;
constexpr std::array<Span, kSpanCount> kSpans = {Span::tokens, Span::shard, Span::replicate};

// On one axis: every rank holds the whole; or a slice along `dim`; or a summand of the whole. Of a sharded
// dim:
//   blocks  it is made of that many equal blocks that lie side by side (gpt2's query, key and value in one
//           matrix): a rank holds its slice of each, so that it has whole heads;
//   pieces  it is made of that many pieces that are never cut (key-value heads): where the axis is longer,
//           that many neighbours hold the same one. 0: it may be cut anywhere;
//   pads    where the axis does not divide it, ranks hold slices of the next multiple, and what lies behind
//           its end is padding (the vocabulary). Else it must divide.
struct AxisPlacement {
  enum class Kind { replicate, shard, partial } kind = Kind::replicate;
  int dim = 0;
  int blocks = 1;
  int64_t pieces = 0;
  bool pads = false;
  static AxisPlacement replicate() { return {}; }
  static AxisPlacement shard(int dim, int blocks = 1) { return {Kind::shard, dim, blocks}; }
  static AxisPlacement partial() { return {Kind::partial}; }
  // Different slices on an axis of `size` ranks, and how many neighbours hold each.
  int64_t slices(int64_t size) const { return pieces > 0 && pieces < size ? pieces : size; }
  int64_t copies(int64_t size) const { return kind == Kind::shard ? size / slices(size) : size; }
  bool operator==(const AxisPlacement&) const = default;
};

struct Placement {
  std::array<AxisPlacement, kAxisCount> on{};
  AxisPlacement& operator[](Axis axis) { return on[static_cast<int>(axis)]; }
  const AxisPlacement& operator[](Axis axis) const { return on[static_cast<int>(axis)]; }
};

}  // namespace muster::spec
