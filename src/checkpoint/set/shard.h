// One rank's file of a checkpoint, on its way out and on its way in.
#pragma once
#include <memory>

#include "checkpoint/set/manifest.h"
#include "checkpoint/set/state.h"
#include "checkpoint/set/storage.h"

namespace muster::checkpoint {

// What a rank tells of the file that it wrote; `pieces` name no file yet (index 0).
struct WrittenShard {
  ManifestFile file;
  std::vector<ManifestTensor> tensors;  // each with one piece
};

// Bytes of the tensors of `state` that `rank` writes.
int64_t bytes_to_write(const State& state, int64_t rank);

// Writes them as a safetensors file folder/name, and syncs it. Hashes are of the bytes in memory as they are
// handed to the disk. Beside the state it takes one chunk of memory.
WrittenShard write_shard(Storage& storage, const fs::path& folder, const std::string& name,
                         const State& state, int64_t rank);

// One file of a checkpoint, read a chunk at a time; what is given out has the manifest's hash. Takes one
// chunk of memory. Throws WorldError(data) naming the file and what is wrong: a link, no regular file,
// another size; the chunk, its bytes and both hashes.
class ShardReader {
 public:
  // `expected` outlives this.
  ShardReader(const fs::path& path, const ManifestFile& expected, int64_t chunk_bytes);
  ~ShardReader();
  ShardReader(ShardReader&&) noexcept;

  int64_t chunks() const { return static_cast<int64_t>(expected_->chunks.size()); }
  // Valid until the next call. The chunk that was asked for last is not read again.
  std::string_view chunk(int64_t index);

 private:
  class PlainFile;
  std::unique_ptr<PlainFile> file_;
  const ManifestFile* expected_;
  int64_t chunk_bytes_;
  std::string buffer_;
  int64_t held_ = -1;
};

}  // namespace muster::checkpoint
