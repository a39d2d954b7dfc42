// Token ids on disk: one run of fixed-width little-endian unsigned integers inside a file.
#pragma once
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>

#include "data/files/place.h"

namespace muster::data {

static_assert(std::endian::native == std::endian::little, "token files are read as they lie");

// The value is the width in bytes. Signed types are read as these: a negative id becomes one too large.
enum class IdType : int { u8 = 1, u16 = 2, u32 = 4, u64 = 8 };

constexpr int64_t bytes_of(IdType type) {
  return static_cast<int64_t>(type);
}
// The narrowest type of at least `least` that holds `largest_id`.
IdType narrowest(int64_t largest_id, IdType least = IdType::u8);

// Checksums are taken of this many bytes at a time, each seeded by the one before.
constexpr int64_t kHashedBytes = int64_t{1} << 20;

// An id where it stands: ids are counted from 0.
struct IdAt {
  uint64_t id = 0;
  int64_t position = 0;
};

class TokenFile {
 public:
  // `ids` ids from byte `offset` of an open file; the caller has checked that they are there.
  TokenFile(File file, IdType type, int64_t offset, int64_t ids);
  // The whole file. Throws UserError where its size is no multiple of the width.
  static TokenFile open_flat(const Place& place, IdType type);

  int64_t ids() const { return ids_; }
  IdType type() const { return type_; }
  const fs::path& path() const { return file_.path(); }

  // Ids [start, start + out.size()). Safe from many threads. Throws WorldError(data) for an id over 2^31 - 1.
  void read(int64_t start, std::span<int32_t> out) const;

  // Reads every id: the first that is `limit` or more, if any.
  std::optional<IdAt> find_at_least(uint64_t limit) const;
  // Reads every id; nothing where there is none.
  std::optional<uint64_t> largest() const;
  // xxh3 of the ids, kHashedBytes at a time.
  uint64_t checksum() const;

 private:
  // Calls `see(bytes, first id, ids)` for the whole file, kHashedBytes at a time, until it returns false.
  template <class See>
  void stream(See&& see) const;

  File file_;
  IdType type_;
  int64_t offset_;
  int64_t ids_;
};

}  // namespace muster::data
