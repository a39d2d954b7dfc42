// Files of text as pieces that can be encoded one by one.
//
//   text  := the whole file, one document of any bytes
//   jsonl := lines, each one JSON object and one document: the string under a key, not empty
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/files/place.h"

namespace muster::data {

// A line of JSONL, or a part of a text.
struct Piece {
  std::string text;
  int64_t begin = 0;  // byte in the file
  int64_t line = 0;   // of JSONL, from 1; 0 for a text
};

class Reader {
 public:
  virtual ~Reader() = default;
  // False at the end of the file. Throws UserError where a piece is larger than `kMostPieceBytes`.
  virtual bool next(Piece& piece) = 0;
  virtual int64_t size_bytes() const = 0;
};

constexpr int64_t kMostPieceBytes = int64_t{1} << 31;

// Lines without their line ends, CR LF or LF.
std::unique_ptr<Reader> open_lines(const Place& place);
// Parts of at least `least_bytes`, cut before a space between two ASCII letters; the whole file where
// `may_cut` is false.
std::unique_ptr<Reader> open_text(const Place& place, bool may_cut, int64_t least_bytes = int64_t{1} << 18);

// The text of a line of JSONL. Throws WorldError(data) with the reason where it has none.
std::string text_of_line(std::string_view line, const std::string& key);

}  // namespace muster::data
