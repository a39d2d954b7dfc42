#include "spec/config/nearest.h"

#include <algorithm>
#include <numeric>

namespace muster::spec {
namespace {

// Levenshtein, "Binary codes capable of correcting deletions, insertions, and reversals", 1966; one row of
// the table at a time.
size_t edits(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (char letter : from) {
    size_t diagonal = row[0]++;
    for (size_t at = 0; at < to.size(); ++at) {
      const size_t replaced = diagonal + (to[at] != letter);
      diagonal = row[at + 1];
      row[at + 1] = std::min({replaced, diagonal + 1, row[at] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string_view> nearest(std::string_view word,
                                        const std::vector<std::string_view>& candidates) {
  std::optional<std::string_view> best;
  size_t fewest = std::max<size_t>(word.size() / 3, 1);
  for (std::string_view candidate : candidates) {
    const size_t count = edits(word, candidate);
    if (count > fewest || (best && count == fewest)) continue;
    best = candidate;
    fewest = count;
  }
  return best;
}

}  // namespace muster::spec
