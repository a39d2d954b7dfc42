#include "spec/mesh/sequence_split.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace muster::spec {
namespace {

int64_t length_of(const std::vector<Stretch>& documents) {
  return documents.empty() ? 0 : documents.back().first + documents.back().size;
}

void add(Passages& passages, int64_t first, int64_t size, int64_t document) {
  if (size == 0) return;
  const bool goes_on = !passages.empty() && passages.back().document == document &&
                       passages.back().first + passages.back().size == first;
  if (goes_on)
    passages.back().size += size;
  else
    passages.push_back({{first, size}, document});
}

Passages early_and_late(const std::vector<Stretch>& documents, int64_t rank, int64_t ranks) {
  const int64_t chunks = 2 * ranks;
  MUSTER_CHECK(length_of(documents) % chunks == 0, "{} tokens in {} chunks", length_of(documents), chunks);
  Passages passages;
  int64_t turn = 0;  // of the tokens that are left over: there and back, as the chunks go
  for (const Stretch& document : documents) {
    const int64_t chunk = document.size / chunks;
    add(passages, document.first + rank * chunk, chunk, document.first);
    add(passages, document.first + (chunks - 1 - rank) * chunk, chunk, document.first);
    for (int64_t at = chunks * chunk; at < document.size; ++at, turn = (turn + 1) % chunks)
      if (std::min(turn, chunks - 1 - turn) == rank) add(passages, document.first + at, 1, document.first);
  }
  return passages;
}

Passages equal_part(const std::vector<Stretch>& documents, int64_t rank, int64_t ranks) {
  const int64_t length = length_of(documents), size = length / ranks, begin = rank * size;
  MUSTER_CHECK(length % ranks == 0, "{} tokens over {} ranks", length, ranks);
  Passages passages;
  for (const Stretch& document : documents) {
    const int64_t first = std::max(document.first, begin),
                  end = std::min(document.first + document.size, begin + size);
    add(passages, first, std::max<int64_t>(end - first, 0), document.first);
  }
  return passages;
}

}  // namespace

Passages passages_of(const std::string& method, const std::vector<Stretch>& documents, int64_t rank,
                     int64_t ranks) {
  return method == "ring" && ranks > 1 ? early_and_late(documents, rank, ranks)
                                       : equal_part(documents, rank, ranks);
}

Blocks blocks_within(const Passages& passages) {
  Blocks blocks;
  int64_t row = 0, document = -1;
  for (const Passage& passage : passages) {
    if (passage.document != document) blocks.push_back({0, row, 0, row, 0, true});
    document = passage.document;
    blocks.back().queries = blocks.back().keys += passage.size;
    row += passage.size;
  }
  return blocks;
}

Blocks blocks_between(const Passages& queries, const Passages& keys) {
  Blocks blocks;
  int64_t row = 0;
  for (const Passage& query : queries) {
    Block block{0, row, query.size, 0, 0, false};
    row += query.size;
    int64_t key_row = 0;
    for (const Passage& key : keys) {
      if (key.document == query.document && key.first < query.first) {
        if (block.keys == 0) block.first_key = key_row;
        block.keys += key.size;
      }
      key_row += key.size;
    }
    if (block.keys == 0) continue;
    Block* last = blocks.empty() ? nullptr : &blocks.back();
    if (last && last->first_query + last->queries == block.first_query &&
        last->first_key == block.first_key && last->keys == block.keys)
      last->queries += block.queries;
    else
      blocks.push_back(block);
  }
  return blocks;
}

int64_t pairs_of(const Blocks& blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), int64_t{0},
                         [](int64_t sum, const Block& block) { return sum + block.pairs(); });
}

}  // namespace muster::spec
