#include "spec/mesh/mesh.h"

#include <algorithm>

#include "base/error.h"
#include "spec/config/job.h"

namespace muster::spec {
namespace {

constexpr const char* kNames[kAxisCount] = {"data", "tensor", "context", "pipeline", "expert"};
constexpr const char* kShort[kAxisCount] = {"dp", "tp", "cp", "pp", "ep"};

}  // namespace

std::string to_string(Axis axis) {
  return kNames[static_cast<int>(axis)];
}

Axis parse_axis(const std::string& name, const std::string& field) {
  for (Axis axis : kAxes)
    if (name == to_string(axis)) return axis;
  throw UserError({field, name, "must be one of data, tensor, context, pipeline", "name a mesh axis"});
}

Mesh::Mesh(std::array<int64_t, kAxisCount> sizes, std::vector<Axis> order)
    : sizes_(sizes), order_(std::move(order)) {
  for (Axis axis : kAxes) {
    MUSTER_CHECK(size(axis) >= 1, "axis {} has size {}", to_string(axis), size(axis));
    const auto times = std::count(order_.begin(), order_.end(), axis);
    MUSTER_CHECK(times == (axis == Axis::expert ? 0 : 1), "axis {} stands {} times in the order",
                 to_string(axis), times);
  }
}

int64_t Mesh::world_size() const {
  int64_t product = 1;
  for (Axis axis : order_) product *= size(axis);
  return product;
}

int64_t Mesh::stride(Axis axis) const {
  int64_t product = 1;
  for (Axis inner : order_) {
    if (inner == axis) return product;
    product *= size(inner);
  }
  throw Bug("axis " + to_string(axis) + " has no stride");
}

int64_t Mesh::coordinate(int64_t rank, Axis axis) const {
  MUSTER_CHECK(rank >= 0 && rank < world_size(), "rank {} in a world of {}", rank, world_size());
  return rank / stride(axis) % size(axis);
}

int64_t Mesh::rank_at(const std::array<int64_t, kAxisCount>& coordinates) const {
  int64_t rank = 0;
  for (Axis axis : order_) rank += coordinates[static_cast<int>(axis)] * stride(axis);
  return rank;
}

std::vector<int64_t> Mesh::group(int64_t rank, Axis axis) const {
  const int64_t first = rank - coordinate(rank, axis) * stride(axis);
  std::vector<int64_t> ranks;
  for (int64_t at = 0; at < size(axis); ++at) ranks.push_back(first + at * stride(axis));
  return ranks;
}

std::string Mesh::describe(int64_t rank) const {
  std::string text;
  for (Axis axis : order_)
    if (size(axis) > 1)
      text += (text.empty() ? "" : " ") + std::string(kShort[static_cast<int>(axis)]) +
              std::to_string(coordinate(rank, axis));
  return text;
}

Mesh make_mesh(const LayoutConfig& layout) {
  std::vector<Axis> order;
  for (const std::string& name : layout.order) order.push_back(parse_axis(name, "layout.order"));
  return {{layout.data, layout.tensor, layout.context, layout.pipeline, 1}, order};
}

}  // namespace muster::spec
