#include "checkpoint/set/chunked_output.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"

namespace muster::checkpoint {

ChunkedOutput::ChunkedOutput(Storage& storage, const fs::path& path)
    : file_(storage, path, Storage::Cache::bypass),
      chunk_(static_cast<char*>(std::aligned_alloc(Storage::kBlock, kChunkBytes))) {
  MUSTER_CHECK(chunk_, "no memory for a chunk of {} bytes", kChunkBytes);
}

void ChunkedOutput::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto room = static_cast<size_t>(kChunkBytes - in_chunk_);
    const std::string_view part = bytes.substr(0, room);
    std::memcpy(chunk_.get() + in_chunk_, part.data(), part.size());
    in_chunk_ += static_cast<int64_t>(part.size());
    bytes.remove_prefix(part.size());
    if (in_chunk_ == kChunkBytes) end_chunk();
  }
}

void ChunkedOutput::write(const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.detach().reshape({-1}).view(at::kByte);
  if (bytes.device().is_cpu()) {
    write({static_cast<const char*>(bytes.data_ptr()), static_cast<size_t>(bytes.numel())});
    return;
  }
  for (int64_t at = 0; at < bytes.numel();) {
    const int64_t part = std::min(bytes.numel() - at, kChunkBytes);
    const at::Tensor host = bytes.narrow(0, at, part).cpu();
    write({static_cast<const char*>(host.data_ptr()), static_cast<size_t>(part)});
    at += part;
  }
}

ManifestFile ChunkedOutput::finish(const std::string& name) {
  if (in_chunk_ > 0) end_chunk();
  file_.finish();
  return {name, bytes_, std::move(hashes_)};
}

void ChunkedOutput::end_chunk() {
  const std::string_view chunk(chunk_.get(), static_cast<size_t>(in_chunk_));
  hashes_.push_back(hash64(chunk));
  file_.write_all(chunk);
  bytes_ += in_chunk_;
  in_chunk_ = 0;
}

}  // namespace muster::checkpoint
