#include "spec/mesh/mesh.h"

#include <gtest/gtest.h>

namespace muster::spec {
namespace {

using Ranks = std::vector<int64_t>;

// data 4 = replicate 2 x shard 2, tensor 2, context 2; tensor innermost.
const Mesh kHybrid({4, 2, 2, 1, 1}, {Axis::tensor, Axis::context, Axis::data, Axis::pipeline}, 2);

TEST(Mesh, SpansAreTheRanksThatShareAllOtherCoordinates) {
  // Rank 9: tensor 1, context 0, data 2, which is shard 0 of replica 1.
  EXPECT_EQ(kHybrid.coordinate(9, Axis::data), 2);
  EXPECT_EQ(kHybrid.group(9, Span::tokens), (Ranks{1, 3, 5, 7, 9, 11, 13, 15}));
  EXPECT_EQ(kHybrid.group(9, Span::shard), (Ranks{9, 11, 13, 15}));
  EXPECT_EQ(kHybrid.group(9, Span::replicate), (Ranks{1, 9}));
  EXPECT_EQ(kHybrid.size(Span::shard) * kHybrid.size(Span::replicate), kHybrid.size(Span::tokens));
}

TEST(Mesh, EveryRankIsInTheGroupsOfItsPeers) {
  for (Span span : kSpans)
    for (int64_t rank = 0; rank < kHybrid.world_size(); ++rank)
      for (int64_t peer : kHybrid.group(rank, span))
        EXPECT_EQ(kHybrid.group(peer, span), kHybrid.group(rank, span)) << kHybrid.name(span);
}

TEST(Mesh, SpansAreCalledByWhatTheyCover) {
  EXPECT_EQ(kHybrid.name(Span::tokens), "data+context");
  EXPECT_EQ(kHybrid.name(Span::shard), "shard+context");
  EXPECT_EQ(kHybrid.name(Span::replicate), "replicate");
  const Mesh plain({4, 2, 1, 1, 1}, {Axis::tensor, Axis::context, Axis::data, Axis::pipeline});
  EXPECT_EQ(plain.name(Span::shard), "data");
  EXPECT_EQ(plain.group(3, Span::shard), plain.group(3, Axis::data));
}

}  // namespace
}  // namespace muster::spec
