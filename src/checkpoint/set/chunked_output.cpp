#include "checkpoint/set/chunked_output.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace muster::checkpoint {
namespace {

// Pieces below this are gathered, so that a model of many small tensors makes no small writes.
constexpr size_t kSmall = size_t{1} << 20;

}  // namespace

void ChunkedOutput::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, static_cast<size_t>(room()));
    put(part);
    bytes.remove_prefix(part.size());
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

void ChunkedOutput::put(std::string_view bytes) {
  hash_.add(bytes);
  if (bytes.size() < kSmall) {
    gathered_ += bytes;
  } else {
    flush_gathered();
    file_.write_all(bytes);
  }
  bytes_ += static_cast<int64_t>(bytes.size());
  in_chunk_ += static_cast<int64_t>(bytes.size());
  if (room() == 0) end_chunk();
}

void ChunkedOutput::flush_gathered() {
  file_.write_all(gathered_);
  gathered_.clear();
}

void ChunkedOutput::end_chunk() {
  flush_gathered();
  file_.start_writeback();
  hashes_.push_back(hash_.take());
  in_chunk_ = 0;
}

}  // namespace muster::checkpoint
