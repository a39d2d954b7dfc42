// One rank's file of a checkpoint, on its way out and on its way in.
#pragma once
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

// Reads a whole file of a checkpoint a chunk at a time, and calls `take(first byte, bytes)` for each once its
// hash is right. Throws WorldError(data) naming file, chunk and both hashes, or what else is wrong: a link,
// no regular file, another size.
void read_verified(const fs::path& path, const ManifestFile& expected, int64_t chunk_bytes,
                   const std::function<void(int64_t, std::string_view)>& take = {});

}  // namespace muster::checkpoint
