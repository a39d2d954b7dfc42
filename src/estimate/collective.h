// Times of collectives in the latency-bandwidth model: a message of n bytes costs alpha + n / B, and a rank
// sends and receives one message at a time.
// Sources: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
// IJHPCA 2005; ring all-reduce: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009;
// two trees: Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", Parallel Computing 2009.
// Stops being true: where links are shared by other traffic, where a protocol changes with the size (NCCL's
// LL and LL128 have lower B and alpha), and inside a switch that reduces by itself.
#pragma once
#include <cstdint>
#include <vector>

namespace muster::estimate {

// One direction of one device's link: seconds a message, bytes a second.
struct LinkModel {
  double latency_seconds = 0;
  double bytes_per_second = 0;
};

enum class Collective { all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, p2p };
enum class Algorithm { ring, tree, one_shot };

struct CollectiveTime {
  double latency_seconds = 0;
  double transfer_seconds = 0;
  double seconds() const { return latency_seconds + transfer_seconds; }
  double latency_share() const { return latency_seconds / seconds(); }
};

// `bytes` is the whole buffer: the vector reduced, the sum of what is gathered or scattered, one rank's
// outgoing data of an all-to-all, the message.
//   ring      all-reduce 2(P-1) (alpha + S/PB); reduce-scatter, all-gather and all-to-all (pairwise) half of
//             it; broadcast as scatter and all-gather, the same as all-reduce; p2p alpha + S/B.
//   tree      all-reduce 2 ceil(lg P) alpha + 2 S/B; broadcast half; pipelined, its filling not counted.
//   one-shot  every rank sends all it has to every other at once over its one link:
//             all-reduce alpha + (P-1) S/B; the sharded ones alpha + (P-1)/P S/B.
// A group of one takes no time.
CollectiveTime collective_time(Collective op, Algorithm algorithm, int64_t ranks, double bytes,
                               const LinkModel& link);

// Whether the algorithm is defined for the operation (a tree for all-reduce and broadcast only).
bool has_algorithm(Collective op, Algorithm algorithm);

// busbw = factor * bytes / seconds; by the convention of NCCL's tests: all-reduce 2(P-1)/P; reduce-scatter,
// all-gather and all-to-all (P-1)/P; broadcast and p2p 1.
double bus_factor(Collective op, int64_t ranks);

// The size at which latency and transfer take the same time: smaller ones are latency-bound. P alpha B for
// every ring collective.
double crossover_bytes(Collective op, Algorithm algorithm, int64_t ranks, const LinkModel& link);

// Two tiers: reduce-scatter among the `per_node` devices of a node, all-reduce of each shard among `nodes`
// over the device's own network link, all-gather inside. nodes = 1 is the ring inside.
CollectiveTime hierarchical_all_reduce(int64_t nodes, int64_t per_node, double bytes, const LinkModel& inside,
                                       const LinkModel& between);

// One ring through all devices of all nodes, at the pace of its slowest hop.
CollectiveTime flat_all_reduce(int64_t nodes, int64_t per_node, double bytes, const LinkModel& inside,
                               const LinkModel& between);

// As many rings as a node has devices, each over a network card of its own with its part of the buffer, as
// NCCL builds them: bounded by the links inside or by all the cards of a node together.
CollectiveTime multi_ring_all_reduce(int64_t nodes, int64_t per_node, double bytes, const LinkModel& inside,
                                     const LinkModel& between);

// A buffer in buckets, each its own all-reduce: ceil(S/bucket) latencies and the transfer of S.
struct BucketTime {
  int64_t count = 0;
  CollectiveTime time;
};
BucketTime bucketed_all_reduce(int64_t ranks, double bytes, double bucket_bytes, const LinkModel& link);

// A message's time at the resolution of measured latencies, a whole microsecond; totals over many messages
// multiply this, so that a printed total is the printed time times the count.
double to_microsecond(double seconds);

}  // namespace muster::estimate
