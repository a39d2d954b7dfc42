// The order in which the windows of one set of ids are drawn: a function of the draw's number, no list.
#pragma once
#include <cstdint>
#include <string>

namespace muster::data {

enum class Order { sequential, shuffled };
Order parse_order(const std::string& name);

// Windows of sequence_length + 1 ids that overlap by one: (ids - 1) div sequence_length.
constexpr int64_t window_count(int64_t ids, int64_t sequence_length) {
  return ids > sequence_length ? (ids - 1) / sequence_length : 0;
}

// Draws are counted from 0 over all epochs. An epoch draws every window once, in its own permutation under
// random_key(seed, "epoch N"); sequential order is the same in each.
class WindowOrder {
 public:
  // `name` keeps the sets of a mixture apart; empty for a set on its own. windows >= 1.
  WindowOrder(Order order, uint64_t seed, std::string name, int64_t windows)
      : order_(order), seed_(seed), name_(std::move(name)), windows_(windows) {}

  int64_t windows() const { return windows_; }
  int64_t epoch(int64_t draw) const { return draw / windows_; }
  int64_t window(int64_t draw) const;

 private:
  Order order_;
  uint64_t seed_;
  std::string name_;
  int64_t windows_;
};

}  // namespace muster::data
