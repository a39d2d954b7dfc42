// Text in, ids out, in the order of the file, with as many threads as pay.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/files/place.h"
#include "data/tokenizer/tokenizer.h"

namespace muster::data {

// What tokenizing has done so far, in bytes of its input.
using Progress = std::function<void(int64_t done_bytes, int64_t of_bytes)>;

struct TokenizeOptions {
  std::string format = "text";    // text | jsonl
  std::string text_key = "text";  // of a JSONL object
  bool skip_bad_lines = false;    // else the first one stops, as a UserError naming file:line
  bool end_each_document = true;  // JSONL: the tokenizer's end token after each document, where it has one
  int64_t threads = 0;            // 0: one a core
};

struct TokenizeCounts {
  int64_t documents = 0;
  int64_t ids = 0;
  int64_t skipped_lines = 0;
};

// What takes the ids. A document may come in several runs.
struct IdSink {
  std::function<void(std::span<const int32_t>)> append;
  std::function<void()> end_document;
};

TokenizeCounts tokenize(const Place& place, const Tokenizer& tokenizer, const TokenizeOptions& options,
                        const IdSink& sink, const Progress& progress = {});

}  // namespace muster::data
