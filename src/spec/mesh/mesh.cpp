#include "spec/mesh/mesh.h"

#include <algorithm>
#include <utility>

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

Mesh::Mesh(std::array<int64_t, kAxisCount> sizes, std::vector<Axis> order, int64_t replicas)
    : sizes_(sizes), order_(std::move(order)), replicas_(replicas) {
  MUSTER_CHECK(replicas >= 1 && size(Axis::data) % replicas == 0, "{} replicas over {} data ranks", replicas,
               size(Axis::data));
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
  return over({{stride(axis), size(axis)}}, rank);
}

std::vector<Mesh::Factor> Mesh::factors(Span span) const {
  const int64_t data = stride(Axis::data), shards = size(Axis::data) / replicas_;
  const Factor shard{data, shards}, replica{data * shards, replicas_};
  const Factor context{stride(Axis::context), size(Axis::context)};
  if (span == Span::shard) return {shard, context};
  if (span == Span::replicate) return {replica};
  return {shard, replica, context};
}

int64_t Mesh::size(Span span) const {
  int64_t product = 1;
  for (const Factor& factor : factors(span)) product *= factor.size;
  return product;
}

std::vector<int64_t> Mesh::group(int64_t rank, Span span) const {
  return over(factors(span), rank);
}

std::vector<int64_t> Mesh::over(const std::vector<Factor>& factors, int64_t rank) {
  int64_t first = rank;
  for (const Factor& factor : factors) first -= rank / factor.stride % factor.size * factor.stride;
  std::vector<int64_t> ranks{first};
  for (const Factor& factor : factors) {
    const std::vector<int64_t> nearer = std::exchange(ranks, {});
    for (int64_t at = 0; at < factor.size; ++at)
      for (int64_t near : nearer) ranks.push_back(near + at * factor.stride);
  }
  std::ranges::sort(ranks);
  return ranks;
}

std::string Mesh::name(Span span) const {
  if (span == Span::replicate) return "replicate";
  const std::string data = span == Span::tokens || replicas_ == 1 ? "data" : "shard";
  return size(Axis::context) > 1 ? data + "+context" : data;
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
  return {{layout.data, layout.tensor, layout.context, layout.pipeline, 1}, order, layout.replicate};
}

}  // namespace muster::spec
