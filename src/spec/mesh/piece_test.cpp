// Pieces against the plainest picture of them: the list of the global elements that they hold, in order.
#include "spec/mesh/piece.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace muster::spec {
namespace {

using ::testing::HasSubstr;
using Elements = std::vector<int64_t>;

int64_t product(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (int64_t size : shape) elements *= size;
  return elements;
}

// Which global elements a part holds, by asking each of them.
Elements listed(const std::vector<int64_t>& shape, const Part& part) {
  int64_t inner = 1;
  for (size_t dim = static_cast<size_t>(part.dim) + 1; dim < shape.size(); ++dim) inner *= shape[dim];
  const int64_t extent = shape.empty() ? 1 : shape[static_cast<size_t>(part.dim)];
  Elements held;
  for (int64_t at = 0; at < product(shape); ++at) {
    const int64_t index = at / inner % extent;
    for (const IndexRun& run : part.runs)
      if (run.global <= index && index < run.global + run.size) held.push_back(at);
  }
  return held;
}

Elements by_runs(const Piece& piece) {
  Elements held;
  for (int64_t at = 0; at < piece.elements();) {
    const FlatRun run = piece.run_from(at);
    EXPECT_EQ(run.local, at);
    EXPECT_GT(run.count, 0);
    for (int64_t i = 0; i < run.count; ++i) held.push_back(run.global + i);
    at += run.count;
  }
  return held;
}

// What a rank of `ranks` holds along `dim` in `blocks`, then the `shard`-th of `shards` uneven flat ranges.
Piece cut(const std::vector<int64_t>& shape, int dim, int64_t blocks, int64_t rank, int64_t ranks,
          int64_t shard, int64_t shards) {
  const int64_t extent = shape.empty() ? 1 : shape[static_cast<size_t>(dim)];
  Part part{dim, {}};
  for (int64_t block = 0, local = 0; block < blocks; ++block) {
    const int64_t first = extent * block / blocks, size = extent * (block + 1) / blocks - first;
    const int64_t from = size * rank / ranks, to = size * (rank + 1) / ranks;
    part.runs.push_back({local, first + from, to - from});
    local += to - from;
  }
  const Piece whole(shape, part);
  return whole.narrow(whole.elements() * shard / shards, whole.elements() * (shard + 1) / shards);
}

const std::vector<std::vector<int64_t>> kShapes = {{5, 3}, {7}, {1}, {0, 4}, {4, 0}, {}, {6, 4, 5}, {12, 2}};

TEST(Piece, HoldsTheElementsThatThePictureSays) {
  for (const auto& shape : kShapes)
    for (int dim = 0; dim < std::max<int>(1, static_cast<int>(shape.size())); ++dim)
      for (int64_t blocks : {1, 2, 3})
        for (int64_t ranks : {1, 2, 3})
          for (int64_t rank = 0; rank < ranks; ++rank)
            for (int64_t shard = 0; shard < 3; ++shard) {
              const Piece piece = cut(shape, dim, blocks, rank, ranks, shard, 3);
              Elements expected = listed(shape, piece.part());
              expected = {expected.begin() + piece.begin(), expected.begin() + piece.end()};
              ASSERT_EQ(by_runs(piece), expected);
              EXPECT_EQ(product(piece.local_shape()), piece.elements());
              for (int64_t global = 0; global <= product(shape); ++global)
                ASSERT_EQ(piece.find(global), std::ranges::lower_bound(expected, global) - expected.begin());
            }
}

TEST(Piece, TheWholeIsOneRun) {
  const Piece whole({6, 4, 5});
  EXPECT_EQ(whole.run_from(0), (FlatRun{0, 0, 120}));
  EXPECT_EQ(whole.run_from(7), (FlatRun{7, 7, 113}));
  EXPECT_EQ(whole.local_shape(), (std::vector<int64_t>{6, 4, 5}));
  EXPECT_EQ(whole.narrow(3, 9).local_shape(), (std::vector<int64_t>{6}));
  EXPECT_EQ(Piece({}).elements(), 1);
}

// A column split has as many runs as the matrix has rows; the leap over them is one step.
TEST(Piece, ColumnsAreRunsAndAreLeaptOver) {
  const Piece columns({1000000, 8}, {1, {{0, 2, 3}}});
  EXPECT_EQ(columns.elements(), 3000000);
  EXPECT_EQ(columns.run_from(4), (FlatRun{4, 11, 2}));
  EXPECT_EQ(columns.find(8 * 999999), 2999997);
  const Piece last_row = Piece({1000000, 8}).narrow(8 * 999999, 8 * 1000000);
  CopyRuns runs(columns, last_row);
  EXPECT_EQ(runs.next(), (CopyRun{2999997, 2, 3}));
  EXPECT_EQ(runs.next(), std::nullopt);
}

TEST(Piece, CopiesBringEachSharedElementOnce) {
  std::mt19937 random(1);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int trial = 0; trial < 4000; ++trial) {
    const auto& shape = kShapes[static_cast<size_t>(below(static_cast<int64_t>(kShapes.size())))];
    const auto any = [&] {
      const int64_t ranks = 1 + below(4), shards = 1 + below(4);
      return cut(shape, static_cast<int>(below(std::max<int64_t>(1, static_cast<int64_t>(shape.size())))),
                 1 + below(3), below(ranks), ranks, below(shards), shards);
    };
    const Piece from = any(), to = any();
    const Elements source = by_runs(from), destination = by_runs(to);
    Elements expected(destination.size(), -1), copied = expected;
    for (size_t at = 0; at < destination.size(); ++at)
      if (std::ranges::binary_search(source, destination[at])) expected[at] = destination[at];
    CopyRuns runs(from, to);
    int64_t last = 0;
    while (const auto run = runs.next()) {
      EXPECT_GT(run->count, 0);
      EXPECT_GE(run->destination, last);
      last = run->destination + run->count;
      for (int64_t i = 0; i < run->count; ++i)
        copied[static_cast<size_t>(run->destination + i)] = source[static_cast<size_t>(run->source + i)];
    }
    ASSERT_EQ(copied, expected) << "trial " << trial;
  }
}

TEST(Piece, OnePartIsOneCopy) {
  const Piece columns({100, 8}, {1, {{0, 2, 3}}});
  const Piece from = columns.narrow(10, 200), to = columns.narrow(50, 300);
  CopyRuns runs(from, to);
  EXPECT_EQ(runs.next(), (CopyRun{40, 0, 150}));
  EXPECT_EQ(runs.next(), std::nullopt);
}

// CASES B030: shapes that do not divide, empty shards, one element; over every number of ranks and shards.
TEST(Tiling, B030_EveryCutTilesAndEveryDamageShows) {
  for (const auto& shape : kShapes)
    for (int dim = 0; dim < std::max<int>(1, static_cast<int>(shape.size())); ++dim)
      for (int64_t ranks : {1, 2, 3, 4})
        for (int64_t shards : {1, 2, 4, 8}) {
          std::vector<Piece> pieces;
          for (int64_t rank = 0; rank < ranks; ++rank)
            for (int64_t shard = 0; shard < shards; ++shard)
              pieces.push_back(cut(shape, dim, 2, rank, ranks, shard, shards));
          std::ranges::reverse(pieces);
          EXPECT_EQ(check_tiling(shape, pieces), "");
          for (size_t at = 0; at < pieces.size(); ++at) {
            const Piece piece = pieces[at];
            if (piece.elements() == 0) continue;
            auto damaged = pieces;
            damaged.erase(damaged.begin() + static_cast<std::ptrdiff_t>(at));
            EXPECT_THAT(check_tiling(shape, damaged), HasSubstr("leave out"));
            damaged.push_back(piece.narrow(0, piece.elements() - 1));
            EXPECT_THAT(check_tiling(shape, damaged), HasSubstr("leave out"));
            damaged = pieces;
            damaged.push_back(piece);
            EXPECT_THAT(check_tiling(shape, damaged), HasSubstr("overlap"));
          }
        }
}

TEST(Tiling, WhatIsWrongIsSaid) {
  const auto rows = [](int64_t first, int64_t size) { return Piece({6, 4}, {0, {{0, first, size}}}); };
  EXPECT_EQ(check_tiling({6, 4}, {rows(0, 2), rows(2, 4)}), "");
  EXPECT_EQ(check_tiling({6, 4}, {rows(0, 2), rows(3, 3)}), "leave out indices 2 to 3 of dim 0");
  EXPECT_EQ(check_tiling({6, 4}, {rows(0, 3), rows(2, 4)}), "overlap in indices 2 to 3 of dim 0");
  EXPECT_EQ(check_tiling({6, 4}, {rows(0, 2)}), "leave out indices 2 to 6 of dim 0");
  EXPECT_EQ(check_tiling({6, 4}, {rows(0, 2), Piece({6, 4}, {1, {{0, 0, 4}}})}), "are cut along two dims");
  EXPECT_EQ(check_tiling({6, 4}, {}), "leave out all 24 elements");
  EXPECT_EQ(check_tiling({6, 4}, {Piece({6, 4}).narrow(0, 5), Piece({6, 4}).narrow(7, 24)}),
            "leave out elements 5 to 7 of a part");
}

TEST(Tiling, APartFromOutsideIsChecked) {
  EXPECT_EQ(check_part({6, 4}, {1, {{0, 1, 2}, {2, 3, 1}}}), "");
  EXPECT_THAT(check_part({6, 4}, {2, {{0, 0, 1}}}), HasSubstr("no dim 2"));
  EXPECT_THAT(check_part({6, 4}, {-1, {}}), HasSubstr("no dim -1"));
  EXPECT_THAT(check_part({6, 4}, {1, {{0, 1, 4}}}), HasSubstr("out of order or range"));
  EXPECT_THAT(check_part({6, 4}, {1, {{0, 2, 2}, {2, 0, 2}}}), HasSubstr("out of order or range"));
  EXPECT_THAT(check_part({6, 4}, {1, {{0, 0, INT64_MAX}}}), HasSubstr("out of order or range"));
  EXPECT_THAT(check_part({6, 4}, {1, {{1, 0, 2}}}), HasSubstr("out of order or range"));
}

}  // namespace
}  // namespace muster::spec
