// What a rank reads: global sample index in, token ids out. Nothing else decides which sample comes when.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/documents/tokenize.h"
#include "data/files/token_file.h"
#include "data/order/cursor.h"
#include "data/order/mixture.h"
#include "data/order/window_order.h"
#include "spec/config/job.h"

namespace muster::data {

// Reads through pread: one Dataset serves all threads of a rank. Opening costs the same for a kilobyte and a
// petabyte. Text and JSONL that `prepare` has not tokenized yet are tokenized when opened, under a lock.
class Dataset {
 public:
  // Throws UserError where the files cannot serve the job (see check).
  static Dataset open_training(const spec::Job& job);
  // data.validation_path, or the last data.validation_fraction of data.path; nothing where the job has
  // neither. In sequential order.
  static std::optional<Dataset> open_validation(const spec::Job& job);

  // Windows of sequence_length + 1 ids in all sets: for one set, the samples of an epoch.
  int64_t windows() const;
  // One more than the largest id that the tokenizer can give; 0 for files of ids, whose ids `check` has read.
  int64_t vocabulary() const { return vocabulary_; }
  int64_t sequence_length() const { return sequence_length_; }

  // The ids of global sample `sample` = step * global_batch_size + i, from 0, counted over all epochs:
  // out.size() = sequence_length + 1; inputs are the first, targets the last sequence_length of them.
  void fill(int64_t sample, std::span<int32_t> out) const;

 private:
  struct Set {
    TokenFile file;
    int64_t first_window = 0;
    WindowOrder order;
  };

  Dataset(const spec::Job& job, int64_t vocabulary);

  std::vector<Set> sets_;
  std::unique_ptr<Mixture> mixture_;  // none for one set
  int64_t sequence_length_ = 0;
  int64_t vocabulary_ = 0;
};

struct Prepared {
  int64_t skipped_lines = 0;  // of all JSONL files, by data.on_bad_line; a run says so at its end
};

// Tokenizes the text and JSONL of the job into the token cache, or verifies what is there. Called by the
// launcher before ranks start; a second caller on the node waits on a lock and then finds it done. Throws
// UserError for a bad line, or a corpus shorter than one sequence.
Prepared prepare(const spec::Job& job, const Log& log, const Progress& progress = {});

// Everything about the data that can be refused before any process exists, all together: a file that is
// missing, cut or inconsistent with its index, a corpus shorter than one sequence, an id outside the
// vocabulary (every id is read), a tokenizer larger than model.vocab_size. What only tokenizing can tell,
// `prepare` tells.
void check(const spec::Job& job, Problems& problems);

}  // namespace muster::data
