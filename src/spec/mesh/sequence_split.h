// How a sequence lies on the ranks of a context group, and which scores each of them computes.
//
// A sequence is made of documents; a token sees itself and what stands before it in its document. The tokens
// of one rank are passages in ascending order, so that what it sees of its own tokens is what an ordinary
// causal mask over its rows gives, document by document.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace muster::spec {

// Tokens [first, first + size) of a sequence.
struct Stretch {
  int64_t first = 0, size = 0;
  bool operator==(const Stretch&) const = default;
};
// A stretch of one document, and the first token of that document.
struct Passage : Stretch {
  int64_t document = 0;
  bool operator==(const Passage&) const = default;
};
using Passages = std::vector<Passage>;

// The parts of `documents`, which lie side by side from token 0, that rank `rank` of `ranks` owns.
//
// "ring": of each document an early and a late chunk, number `rank` and 2 * ranks - 1 - rank of 2 * ranks, so
// that every rank has the same number of scores (Brandon et al. 2023, "Striped Attention"; Llama Team 2024,
// section 3.3.2). The tokens that a document's chunks leave go to the ranks by turns. The sequence's length
// must be a multiple of 2 * ranks: every rank owns the same number of tokens.
// "all_to_all": the rank-th of `ranks` equal parts.
Passages passages_of(const std::string& method, const std::vector<Stretch>& documents, int64_t rank,
                     int64_t ranks);

// Queries [first_query, first_query + queries) and keys [first_key, first_key + keys), in rows of two ranks'
// parts of one sequence. Causal: of the same rows, each seeing those up to itself; else all see all.
struct Block {
  int64_t sequence = 0;
  int64_t first_query = 0, queries = 0, first_key = 0, keys = 0;
  bool causal = false;
  int64_t pairs() const { return causal ? queries * (queries + 1) / 2 : queries * keys; }
  bool operator==(const Block&) const = default;
};
using Blocks = std::vector<Block>;

// What the tokens of `passages` see of each other: one causal block a document.
Blocks blocks_within(const Passages& passages);
// What the tokens of `queries` see of another rank's `keys`.
Blocks blocks_between(const Passages& queries, const Passages& keys);
// The number of scores.
int64_t pairs_of(const Blocks& blocks);

}  // namespace muster::spec
