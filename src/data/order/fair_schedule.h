// Which of several sets each draw of a mixture comes from, so that after every n draws each set has been
// drawn within one of share/total * n times.
//
// Set i's draw j (from 0) may come once j < share * (n + 1) / total, and must come before the fluid count
// passes j + 1; the earliest of these deadlines is taken. Such windows can always be kept (Tijdeman, "The
// chairman assignment problem", Discrete Mathematics 32, 1980; Baruah et al., "Proportionate progress",
// Algorithmica 15, 1996, section 3). Exact in integers; it repeats after `total` draws.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace muster::data {

// The `number`-th draw, from 0, out of set `set`.
struct Draw {
  int64_t set = 0;
  int64_t number = 0;
  bool operator==(const Draw&) const = default;
};

// Weights as whole numbers without a common divisor: exact for weights of at most nine decimals. 2 and 6 are
// 1 and 3. Throws UserError on `field` where none is positive, one is negative or not finite, or one is lost
// beside the largest.
std::vector<int64_t> whole_shares(const std::vector<double>& weights, const std::string& field);

// Safe from many threads. Memory: one block of draws, and one row of counts per block passed. Time: draws in
// order cost a few nanoseconds each; a far index costs one pass up to it, at most one period.
class FairSchedule {
 public:
  // Shares >= 0, at least one positive, their sum at most 2^53.
  explicit FairSchedule(std::vector<int64_t> shares);

  int64_t period() const { return total_; }
  Draw draw(int64_t index) const;
  // How often each set occurs among the first `draws`.
  std::vector<int64_t> counts(int64_t draws) const;

 private:
  struct Block {
    int64_t index = -1;
    std::vector<Draw> draws;
  };

  int64_t next(std::vector<int64_t>& counts, int64_t place) const;
  std::shared_ptr<const Block> block(int64_t index) const;
  void pass_to(int64_t block) const;

  std::vector<int64_t> shares_;
  int64_t total_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::vector<int64_t>> counts_at_block_;
  mutable std::shared_ptr<const Block> last_;
};

}  // namespace muster::data
