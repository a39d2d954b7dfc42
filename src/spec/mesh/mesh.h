// The mesh: N = data * tensor * context * pipeline ranks, laid out with the first axis of `order` innermost.
// Sequence parallelism shares the tensor group. The expert group is carved out of data * context.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "spec/mesh/placement.h"

namespace muster::spec {

class Mesh {
 public:
  // Sizes by axis (expert: the size carved out; it does not multiply). `order` names the other axes,
  // innermost first.
  Mesh(std::array<int64_t, kAxisCount> sizes, std::vector<Axis> order);

  int64_t world_size() const;
  int64_t size(Axis axis) const { return sizes_[static_cast<int>(axis)]; }
  const std::vector<Axis>& order() const { return order_; }
  // Where `rank` stands on an axis, 0 .. size-1.
  int64_t coordinate(int64_t rank, Axis axis) const;
  int64_t rank_at(const std::array<int64_t, kAxisCount>& coordinates) const;
  // The ranks that share all of `rank`'s coordinates but that of `axis`, in order of that coordinate.
  std::vector<int64_t> group(int64_t rank, Axis axis) const;
  // "dp1 tp0 cp0 pp0", the axes longer than one.
  std::string describe(int64_t rank) const;

 private:
  int64_t stride(Axis axis) const;
  std::array<int64_t, kAxisCount> sizes_;
  std::vector<Axis> order_;
};

struct LayoutConfig;
// The mesh of a resolved layout (config/job.h, resolve_layout).
Mesh make_mesh(const LayoutConfig& layout);

}  // namespace muster::spec
