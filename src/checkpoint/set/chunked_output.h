// A file on its way to the disk in chunks: each is hashed as it is in memory, written in large pieces, and
// sent on to the disk while the next is prepared.
#pragma once
#include <ATen/core/Tensor.h>

#include "base/hash.h"
#include "checkpoint/set/manifest.h"
#include "checkpoint/set/storage.h"

namespace muster::checkpoint {

class ChunkedOutput {
 public:
  ChunkedOutput(Storage& storage, const fs::path& path) : file_(storage, path) {}

  void write(std::string_view bytes);
  // The bytes of a contiguous tensor. One in host memory is written from where it is; another passes through
  // one chunk of memory.
  void write(const at::Tensor& tensor);
  // The file is on the disk, all but its name.
  ManifestFile finish(const std::string& name);

 private:
  void put(std::string_view bytes);
  void flush_gathered();
  void end_chunk();
  int64_t room() const { return kChunkBytes - in_chunk_; }

  OutputFile file_;
  StreamHash hash_;
  std::string gathered_;  // small pieces, hashed and not yet written
  std::vector<uint64_t> hashes_;
  int64_t bytes_ = 0, in_chunk_ = 0;
};

}  // namespace muster::checkpoint
