#include "spec/mesh/sequence_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace muster::spec {
namespace {

using Documents = std::vector<Stretch>;

std::vector<int64_t> tokens_of(const Passages& passages) {
  std::vector<int64_t> tokens;
  for (const Passage& passage : passages)
    for (int64_t at = 0; at < passage.size; ++at) tokens.push_back(passage.first + at);
  return tokens;
}

int64_t pairs_of_rank(const std::string& method, const Documents& documents, int64_t rank, int64_t ranks) {
  const Passages own = passages_of(method, documents, rank, ranks);
  int64_t pairs = pairs_of(blocks_within(own));
  for (int64_t peer = 0; peer < ranks; ++peer)
    if (peer != rank) pairs += pairs_of(blocks_between(own, passages_of(method, documents, peer, ranks)));
  return pairs;
}

TEST(SequenceSplit, EarlyAndLateChunks) {
  const Documents one{{0, 16}};
  EXPECT_EQ(passages_of("ring", one, 0, 2), (Passages{{{0, 4}, 0}, {{12, 4}, 0}}));
  EXPECT_EQ(passages_of("ring", one, 1, 2), (Passages{{{4, 8}, 0}}));
  EXPECT_EQ(passages_of("all_to_all", one, 1, 2), (Passages{{{8, 8}, 0}}));
  EXPECT_EQ(passages_of("ring", one, 0, 1), (Passages{{{0, 16}, 0}}));
}

// Every token has one owner, each rank the same number of them in ascending order, whatever the documents.
TEST(SequenceSplit, B052_NoTokenIsLost) {
  for (const Documents& documents :
       {Documents{{0, 7}, {7, 9}}, Documents{{0, 5}, {5, 3}, {8, 8}}, Documents{{0, 1}, {1, 1}, {2, 14}},
        Documents{{0, 16}}, Documents{{0, 13}, {13, 35}}})
    for (const int64_t ranks : {1, 2, 4}) {
      const int64_t length = documents.back().first + documents.back().size;
      std::vector<int64_t> owners(static_cast<size_t>(length), 0);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const std::vector<int64_t> tokens = tokens_of(passages_of("ring", documents, rank, ranks));
        EXPECT_EQ(std::ssize(tokens), length / ranks);
        EXPECT_TRUE(std::ranges::is_sorted(tokens));
        for (const int64_t token : tokens) ++owners[static_cast<size_t>(token)];
      }
      EXPECT_EQ(owners, std::vector<int64_t>(static_cast<size_t>(length), 1)) << length << " over " << ranks;
    }
}

// The scores of all ranks are those of the documents, each once.
TEST(SequenceSplit, BlocksAreTheCausalMask) {
  const Documents documents{{0, 5}, {5, 3}, {8, 24}};
  for (const int64_t ranks : {1, 2, 4}) {
    std::vector<std::vector<int64_t>> seen(32, std::vector<int64_t>(32, 0));
    std::vector<std::vector<int64_t>> right = seen;
    for (const Stretch& d : documents)
      for (int64_t q = d.first; q < d.first + d.size; ++q)
        for (int64_t k = d.first; k <= q; ++k) right[static_cast<size_t>(q)][static_cast<size_t>(k)] = 1;
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (int64_t peer = 0; peer < ranks; ++peer) {
        const Passages own = passages_of("ring", documents, rank, ranks),
                       theirs = passages_of("ring", documents, peer, ranks);
        const auto queries = tokens_of(own), keys = tokens_of(theirs);
        for (const Block& b : rank == peer ? blocks_within(own) : blocks_between(own, theirs))
          for (int64_t q = 0; q < b.queries; ++q)
            for (int64_t k = 0; k < (b.causal ? q + 1 : b.keys); ++k)
              ++seen[static_cast<size_t>(queries[static_cast<size_t>(b.first_query + q)])]
                    [static_cast<size_t>(keys[static_cast<size_t>(b.first_key + k)])];
      }
    EXPECT_EQ(seen, right) << ranks << " ranks";
  }
}

// CASES B054: what a rank holds is counted in its own rows, never in positions of the whole.
TEST(SequenceSplit, B054_BlocksCountOwnRows) {
  const auto documents_of = [](const Documents& documents, int64_t rank) {
    std::vector<std::pair<int64_t, int64_t>> found;
    for (const Block& b : blocks_within(passages_of("all_to_all", documents, rank, 2)))
      found.emplace_back(b.first_query, b.queries);
    return found;
  };
  using Found = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(documents_of({{0, 16}}, 0), (Found{{0, 8}}));
  EXPECT_EQ(documents_of({{0, 16}}, 1), (Found{{0, 8}}));
  EXPECT_EQ(documents_of({{0, 12}, {12, 4}}, 0), (Found{{0, 8}}));
  EXPECT_EQ(documents_of({{0, 12}, {12, 4}}, 1), (Found{{0, 4}, {4, 4}}));
}

// CASES B056: documents of 4 and 12 have 10 + 78 pairs.
TEST(SequenceSplit, B056_EveryRankHasTheSameWork) {
  const Documents documents{{0, 4}, {4, 12}};
  EXPECT_EQ(pairs_of_rank("ring", documents, 0, 2), 44);
  EXPECT_EQ(pairs_of_rank("ring", documents, 1, 2), 44);
  for (const int64_t ranks : {2, 4, 8})
    for (int64_t rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(pairs_of_rank("ring", {{0, 64}}, rank, ranks), 64 * 65 / 2 / ranks);
}

// One document: a rank meets each other one in one block without a mask, half of its rows or half of theirs.
TEST(SequenceSplit, OtherRanksAreOneFullBlock) {
  const Documents one{{0, 32}};
  const auto between = [&](int64_t rank, int64_t peer) {
    return blocks_between(passages_of("ring", one, rank, 4), passages_of("ring", one, peer, 4));
  };
  EXPECT_EQ(between(2, 1), (Blocks{{0, 0, 8, 0, 4, false}}));
  EXPECT_EQ(between(1, 2), (Blocks{{0, 4, 4, 0, 8, false}}));
}

}  // namespace
}  // namespace muster::spec
