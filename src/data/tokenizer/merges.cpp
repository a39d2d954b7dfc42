#include "data/tokenizer/merges.h"

#include <queue>

namespace muster::data {
namespace {

uint64_t key_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

void Merges::add(int32_t left, int32_t right, int32_t merged) {
  rules_.insert_or_assign(key_of(left, right), Rule{next_rank_++, merged});
}

const Merges::Rule* Merges::find(int32_t left, int32_t right) const {
  const auto found = rules_.find(key_of(left, right));
  return found == rules_.end() ? nullptr : &found->second;
}

// A word as a linked list of symbols, with the pairs that may merge waiting in order of rank.
class Merges::Word {
 public:
  Word(const Merges& merges, std::span<const int32_t> ids) : merges_(merges) {
    const auto count = static_cast<int32_t>(ids.size());
    for (int32_t at = 0; at < count; ++at)
      symbols_.push_back({ids[static_cast<size_t>(at)], at - 1, at + 1 < count ? at + 1 : -1});
    for (int32_t at = 0; at + 1 < count; ++at) propose(at);
  }

  void merge_all() {
    while (!waiting_.empty()) {
      const Candidate best = waiting_.top();
      waiting_.pop();
      if (still_stands(best)) merge(best);
    }
  }

  void append_to(std::vector<int32_t>& out) const {
    for (int32_t at = symbols_.empty() ? -1 : 0; at >= 0; at = symbol(at).next) out.push_back(symbol(at).id);
  }

 private:
  struct Symbol {
    int32_t id;
    int32_t before, next;  // -1: none
  };
  struct Candidate {
    int32_t rank, left_at, left, right, merged;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left_at > other.left_at;
    }
  };
  static constexpr int32_t kGone = -1;

  const Symbol& symbol(int32_t at) const { return symbols_[static_cast<size_t>(at)]; }
  Symbol& symbol(int32_t at) { return symbols_[static_cast<size_t>(at)]; }

  void propose(int32_t left_at) {
    if (left_at < 0 || symbol(left_at).next < 0) return;
    const int32_t left = symbol(left_at).id, right = symbol(symbol(left_at).next).id;
    if (const Rule* rule = merges_.find(left, right))
      waiting_.push({rule->rank, left_at, left, right, rule->merged});
  }

  bool still_stands(const Candidate& candidate) const {
    const Symbol& left = symbol(candidate.left_at);
    return left.id == candidate.left && left.next >= 0 && symbol(left.next).id == candidate.right;
  }

  void merge(const Candidate& best) {
    Symbol& left = symbol(best.left_at);
    Symbol& right = symbol(left.next);
    left.id = best.merged;
    left.next = right.next;
    right.id = kGone;
    if (left.next >= 0) symbol(left.next).before = best.left_at;
    propose(left.before);
    propose(best.left_at);
  }

  const Merges& merges_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> waiting_;
};

void Merges::apply(std::span<const int32_t> symbols, std::vector<int32_t>& out) const {
  Word word(*this, symbols);
  word.merge_all();
  word.append_to(out);
}

}  // namespace muster::data
