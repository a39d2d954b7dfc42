#include "nn/positions.h"

#include <algorithm>

namespace muster::nn {
namespace {

using Documents = std::vector<spec::Stretch>;

void add_blocks(spec::Blocks& all, spec::Blocks blocks, int64_t sequence) {
  for (spec::Block& block : blocks) {
    block.sequence = sequence;
    all.push_back(block);
  }
}

// The scores of one sequence, by peer.
void add_sequence_blocks(Positions& positions, const Documents& documents, const spec::Passages& own,
                         int64_t sequence, const SequenceSplit& split) {
  if (split.method == "all_to_all" || split.ranks == 1)
    return add_blocks(positions.blocks[0],
                      spec::blocks_within(spec::passages_of(split.method, documents, 0, 1)), sequence);
  for (int64_t peer = 0; peer < split.ranks; ++peer)
    add_blocks(positions.blocks[static_cast<size_t>(peer)],
               peer == split.rank
                   ? spec::blocks_within(own)
                   : spec::blocks_between(own, spec::passages_of(split.method, documents, peer, split.ranks)),
               sequence);
}

}  // namespace

Positions make_positions(const std::vector<Documents>& documents, int64_t length, int64_t first_sample,
                         const SequenceSplit& split) {
  Positions positions;
  positions.sequences = static_cast<int64_t>(documents.size());
  positions.length = length / split.ranks;
  positions.whole_length = length;
  positions.blocks.resize(split.method == "all_to_all" ? 1 : static_cast<size_t>(split.ranks));
  int64_t row = 0;
  for (int64_t sequence = 0; sequence < positions.sequences; ++sequence) {
    const Documents& parts = documents[static_cast<size_t>(sequence)];
    const spec::Passages own = spec::passages_of(split.method, parts, split.rank, split.ranks);
    for (const spec::Passage& passage : own) {
      const int64_t position = passage.first - passage.document;
      positions.runs.push_back(
          {row, passage.size, position, (first_sample + sequence) * length + passage.first});
      positions.end = std::max(positions.end, position + passage.size);
      row += passage.size;
    }
    add_sequence_blocks(positions, parts, own, sequence, split);
  }
  positions.stream = positions.runs;
  return positions;
}

void share_stream(Positions& positions, int64_t share, int64_t shares) {
  const int64_t rows = positions.sequences * positions.length / shares, begin = share * rows;
  positions.stream.clear();
  for (const RowRun& run : positions.runs) {
    const int64_t first = std::max(run.row, begin), end = std::min(run.row + run.rows, begin + rows);
    if (first >= end) continue;
    const int64_t in = first - run.row;
    positions.stream.push_back({first - begin, end - first, run.position + in, run.token + in});
  }
}

Positions whole_sequences(int64_t sequences, int64_t length, int64_t first_sample) {
  const std::vector<Documents> documents(static_cast<size_t>(sequences), Documents{{0, length}});
  return make_positions(documents, length, first_sample, {});
}

}  // namespace muster::nn
