#include "estimate/collective.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace muster::estimate {
namespace {

bool is_round_trip(Collective op, Algorithm algorithm) {
  return op == Collective::all_reduce || (op == Collective::broadcast && algorithm == Algorithm::ring);
}

// Messages one after another, and buffers that cross the link, of one collective.
struct Cost {
  double messages = 0;
  double buffers = 0;
};

Cost cost_of(Collective op, Algorithm algorithm, int64_t ranks) {
  const double p = static_cast<double>(ranks), others = p - 1;
  const double trips = is_round_trip(op, algorithm) ? 2 : 1;
  switch (algorithm) {
    case Algorithm::ring:
      return op == Collective::p2p ? Cost{1, 1} : Cost{trips * others, trips * others / p};
    case Algorithm::tree:
      return {trips * std::bit_width(static_cast<uint64_t>(ranks - 1)), trips};
    case Algorithm::one_shot:
      if (op == Collective::p2p) return {1, 1};
      return {1, op == Collective::all_reduce || op == Collective::broadcast ? others : others / p};
  }
  return {};
}

CollectiveTime time_of(const Cost& cost, double bytes, const LinkModel& link) {
  return {cost.messages * link.latency_seconds, cost.buffers * bytes / link.bytes_per_second};
}

CollectiveTime operator+(const CollectiveTime& a, const CollectiveTime& b) {
  return {a.latency_seconds + b.latency_seconds, a.transfer_seconds + b.transfer_seconds};
}

}  // namespace

bool has_algorithm(Collective op, Algorithm algorithm) {
  return algorithm != Algorithm::tree || op == Collective::all_reduce || op == Collective::broadcast;
}

CollectiveTime collective_time(Collective op, Algorithm algorithm, int64_t ranks, double bytes,
                               const LinkModel& link) {
  MUSTER_CHECK(has_algorithm(op, algorithm), "no tree for this collective");
  if (ranks == 1) return {};
  return time_of(cost_of(op, algorithm, ranks), bytes, link);
}

double bus_factor(Collective op, int64_t ranks) {
  const double p = static_cast<double>(ranks);
  if (op == Collective::broadcast || op == Collective::p2p) return 1;
  return (op == Collective::all_reduce ? 2 : 1) * (p - 1) / p;
}

double crossover_bytes(Collective op, Algorithm algorithm, int64_t ranks, const LinkModel& link) {
  const Cost cost = cost_of(op, algorithm, ranks);
  return cost.messages / cost.buffers * link.latency_seconds * link.bytes_per_second;
}

CollectiveTime hierarchical_all_reduce(int64_t nodes, int64_t per_node, double bytes, const LinkModel& inside,
                                       const LinkModel& between) {
  const CollectiveTime inner =
      collective_time(Collective::all_reduce, Algorithm::ring, per_node, bytes, inside);
  return inner + collective_time(Collective::all_reduce, Algorithm::ring, nodes,
                                 bytes / static_cast<double>(per_node), between);
}

CollectiveTime flat_all_reduce(int64_t nodes, int64_t per_node, double bytes, const LinkModel& inside,
                               const LinkModel& between) {
  const LinkModel slowest = {std::max(inside.latency_seconds, between.latency_seconds),
                             std::min(inside.bytes_per_second, between.bytes_per_second)};
  return collective_time(Collective::all_reduce, Algorithm::ring, nodes * per_node, bytes,
                         nodes == 1 ? inside : (per_node == 1 ? between : slowest));
}

CollectiveTime multi_ring_all_reduce(int64_t nodes, int64_t per_node, double bytes, const LinkModel& inside,
                                     const LinkModel& between) {
  LinkModel all_cards = between;
  all_cards.bytes_per_second *= static_cast<double>(per_node);
  return flat_all_reduce(nodes, per_node, bytes, inside, all_cards);
}

BucketTime bucketed_all_reduce(int64_t ranks, double bytes, double bucket_bytes, const LinkModel& link) {
  BucketTime result;
  result.count = static_cast<int64_t>(std::ceil(bytes / bucket_bytes));
  result.time = collective_time(Collective::all_reduce, Algorithm::ring, ranks, bytes, link);
  result.time.latency_seconds *= static_cast<double>(result.count);
  return result;
}

double to_microsecond(double seconds) {
  return std::round(seconds * 1e6) * 1e-6;
}

}  // namespace muster::estimate
