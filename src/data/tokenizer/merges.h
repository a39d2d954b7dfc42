// Byte-pair merging of one word: of all adjacent pairs that may merge, the one of lowest rank, leftmost
// first, until none may. Sennrich et al., "Neural machine translation of rare words with subword units", ACL
// 2016, section 3.2. O(n log n) for a word of n bytes.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace muster::data {

class Merges {
 public:
  // A later rule for the same pair takes the place of an earlier one.
  void add(int32_t left, int32_t right, int32_t merged);
  int64_t size() const { return next_rank_; }
  // Appends what is left of `symbols` after every merge.
  void apply(std::span<const int32_t> symbols, std::vector<int32_t>& out) const;

 private:
  struct Rule {
    int32_t rank;
    int32_t merged;
  };
  const Rule* find(int32_t left, int32_t right) const;
  class Word;

  std::unordered_map<uint64_t, Rule> rules_;
  int32_t next_rank_ = 0;
};

}  // namespace muster::data
