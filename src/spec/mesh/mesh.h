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
  // innermost first. `replicas` divides the data axis.
  Mesh(std::array<int64_t, kAxisCount> sizes, std::vector<Axis> order, int64_t replicas = 1);

  int64_t world_size() const;
  int64_t size(Axis axis) const { return sizes_[static_cast<int>(axis)]; }
  int64_t size(Span span) const;
  const std::vector<Axis>& order() const { return order_; }
  // Where `rank` stands on an axis, 0 .. size-1.
  int64_t coordinate(int64_t rank, Axis axis) const;
  int64_t rank_at(const std::array<int64_t, kAxisCount>& coordinates) const;
  // The ranks that share all of `rank`'s coordinates but that of `axis`, in order of that coordinate.
  std::vector<int64_t> group(int64_t rank, Axis axis) const;
  // The ranks of `rank`'s span, ascending.
  std::vector<int64_t> group(int64_t rank, Span span) const;
  // "data+context", "shard": what a person calls the ranks of a span.
  std::string name(Span span) const;
  // "dp1 tp0 cp0 pp0", the axes longer than one.
  std::string describe(int64_t rank) const;

 private:
  // A run of ranks `stride` apart: an axis, or a part of one.
  struct Factor {
    int64_t stride = 1, size = 1;
  };
  std::vector<Factor> factors(Span span) const;
  // The ranks that differ from `rank` in these alone, ascending.
  static std::vector<int64_t> over(const std::vector<Factor>& factors, int64_t rank);
  int64_t stride(Axis axis) const;
  std::array<int64_t, kAxisCount> sizes_;
  std::vector<Axis> order_;
  int64_t replicas_;
};

struct LayoutConfig;
// The mesh of a resolved layout (config/job.h, resolve_layout).
Mesh make_mesh(const LayoutConfig& layout);

}  // namespace muster::spec
