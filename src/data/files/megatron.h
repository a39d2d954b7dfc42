// Megatron's pair of files: PREFIX.bin holds ids, PREFIX.idx says where sequences and documents lie.
//
//   .idx := "MMIDIDX" 00 00 | version u64 = 1 | type u8 | sequences u64 | document bounds u64
//           | ids in each sequence, i32 each | byte where each begins in .bin, i64 each
//           | sequence where each document begins, and one past the last, i64 each
//           [ | mode of each sequence, i8 each ]                              (multimodal sets; not used
//           here)
//   type := 1 u8 | 4 i32 | 5 i64 | 8 u16        (2 i8, 3 i16, 6 f64, 7 f32 hold no ids that we read)
//
// All numbers little-endian. Source: Megatron-LM, megatron/core/datasets/indexed_dataset.py.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/files/id_writer.h"
#include "data/files/token_file.h"

namespace muster::data {

struct MegatronSummary {
  IdType type = IdType::u16;
  int64_t ids = 0;
  int64_t sequences = 0;
  int64_t documents = 0;
};

// `path` is PREFIX, PREFIX.bin or PREFIX.idx; gives the two files.
struct MegatronPair {
  Place bin, idx;
};
MegatronPair megatron_pair(const Place& place);

// Checks header and sizes against both files, in a time that does not depend on them. Throws UserError with
// expected and real byte counts.
TokenFile open_megatron(const Place& place);
// Also reads the whole index: each sequence must begin where the one before ended, documents must be in
// order.
MegatronSummary check_megatron(const Place& place);

// Byte positions of documents one after another.
class Positions {
 public:
  explicit Positions(IdType type) : width_(bytes_of(type)) {}
  // Where the next document begins.
  int64_t next() const { return next_; }
  void add(int64_t ids) { next_ += ids * width_; }

 private:
  int64_t width_;
  int64_t next_ = 0;
};

// Each document is one sequence. The pair appears whole: .bin first, then .idx.
class MegatronWriter {
 public:
  MegatronWriter(const fs::path& prefix, int64_t largest_id);
  // Goes on with the current document.
  void append(std::span<const int32_t> ids) { bin_.append(ids); }
  // At most 2^31 - 1 ids a document, the format's limit: more is a WorldError(data).
  void end_document();
  void commit();
  const IdWriter& bin() const { return bin_; }
  int64_t documents() const { return std::ssize(lengths_); }

 private:
  std::string index() const;

  fs::path prefix_;
  IdWriter bin_;
  int64_t document_begin_ = 0;  // in ids
  std::vector<int32_t> lengths_;
};

}  // namespace muster::data
