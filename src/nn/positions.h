// Where the rows of a micro-batch stand: made once, when the tokens are taken, and carried with them. Nothing
// works a position out again from a row's number.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "spec/mesh/sequence_split.h"

namespace muster::nn {

// Consecutive rows that hold consecutive tokens of one document.
struct RowRun {
  int64_t row = 0, rows = 0;
  int64_t position = 0;  // of the first one within its document: what rotary and learned positions see
  int64_t token = 0;     // number of the first one within the step's global batch: names its random draws
};

struct Positions {
  int64_t sequences = 0, length = 0;  // rows are [sequences, length], this rank's part of each
  int64_t end = 0;                    // one more than the largest position
  std::vector<RowRun> runs;
  // The rows of the residual stream that this rank has: `runs`, or its share of them.
  std::vector<RowRun> stream;
  // By rank of the context group: the scores of this rank's queries and that rank's keys. One entry where
  // attention takes whole sequences.
  std::vector<spec::Blocks> blocks;
  // What attention works on where heads and not sequences are split over the context group: whole sequences.
  int64_t whole_length = 0;
};

// How the sequences of a micro-batch are taken apart.
struct SequenceSplit {
  std::string method = "ring";
  int64_t rank = 0, ranks = 1;
};
// Sequences `first_sample`, ... of the step's global batch, each `length` tokens made of `documents[i]`.
Positions make_positions(const std::vector<std::vector<spec::Stretch>>& documents, int64_t length,
                         int64_t first_sample, const SequenceSplit& split);
// Of the rows, `stream` keeps the share-th of `shares` equal runs of neighbours, counted from its first.
void share_stream(Positions& positions, int64_t share, int64_t shares);
// Whole sequences of one document each.
Positions whole_sequences(int64_t sequences, int64_t length, int64_t first_sample = 0);

}  // namespace muster::nn
