// A file on its way to the disk in chunks, past the page cache: each is gathered in one aligned buffer,
// hashed there and written at once. A disk takes more that way than through the cache, whose pages a training
// needs.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdlib>
#include <memory>

#include "checkpoint/set/manifest.h"
#include "checkpoint/set/storage.h"

namespace muster::checkpoint {

class ChunkedOutput {
 public:
  ChunkedOutput(Storage& storage, const fs::path& path);

  void write(std::string_view bytes);
  // The bytes of a contiguous tensor. One on a device passes through one more chunk of memory.
  void write(const at::Tensor& tensor);
  // The file is on the disk, all but its name.
  ManifestFile finish(const std::string& name);

 private:
  void end_chunk();

  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  OutputFile file_;
  std::unique_ptr<char, Free> chunk_;
  std::vector<uint64_t> hashes_;
  int64_t bytes_ = 0, in_chunk_ = 0;
};

}  // namespace muster::checkpoint
