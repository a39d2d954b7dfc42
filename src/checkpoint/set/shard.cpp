#include "checkpoint/set/shard.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/set/chunked_output.h"
#include "checkpoint/tensor_io.h"

namespace muster::checkpoint {
namespace {

// Opens what must be a plain file of its folder: no link, no pipe.
class ShardFile {
 public:
  explicit ShardFile(const fs::path& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) {
    if (fd_ < 0)
      refuse(errno == ELOOP ? std::string("is a link") : std::string("cannot be opened: ") + strerror(errno));
    struct stat status {};
    if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(fd_);
      refuse("is not a regular file");
    }
    size_ = status.st_size;
  }
  ~ShardFile() { ::close(fd_); }
  ShardFile(const ShardFile&) = delete;

  int64_t size() const { return size_; }
  void read(char* out, int64_t bytes, int64_t offset) const {
    while (bytes > 0) {
      const ssize_t got = ::pread(fd_, out, static_cast<size_t>(bytes), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0)
        refuse(fmt::format("byte {} cannot be read: {}", offset, got < 0 ? strerror(errno) : "end"));
      out += got;
      offset += got;
      bytes -= got;
    }
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw WorldError(WorldError::Kind::data, fmt::format("{}: {}", path_.string(), what));
  }

 private:
  fs::path path_;
  int fd_;
  int64_t size_ = 0;
};

TensorEntry entry_of(const StateTensor& tensor) {
  return {.name = tensor.name,
          .dtype = to_dtype(tensor.local.scalar_type()),
          .shape = tensor.local.sizes().vec(),
          .begin = 0,
          .end = 0};
}

}  // namespace

int64_t bytes_to_write(const State& state, int64_t rank) {
  int64_t sum = 0;
  for (const StateTensor& tensor : state.tensors)
    if (tensor.writer == rank) sum += static_cast<int64_t>(tensor.local.nbytes());
  return sum;
}

WrittenShard write_shard(Storage& storage, const fs::path& folder, const std::string& name,
                         const State& state, int64_t rank) {
  const c10::NoGradGuard no_grad;
  std::map<std::string, const StateTensor*> by_name;
  std::vector<TensorEntry> entries;
  for (const StateTensor& tensor : state.tensors) {
    if (tensor.writer != rank) continue;
    MUSTER_CHECK(tensor.local.is_contiguous(), "{} is not contiguous", tensor.name);
    MUSTER_CHECK(by_name.emplace(tensor.name, &tensor).second, "{} is registered twice", tensor.name);
    entries.push_back(entry_of(tensor));
  }
  entries = lay_out(std::move(entries), name);

  ChunkedOutput output(storage, folder / name);
  const std::string head = safetensors_head(entries, {});
  output.write(head);
  WrittenShard shard;
  for (const TensorEntry& entry : entries) {
    const StateTensor& tensor = *by_name.at(entry.name);
    if (tensor.local.numel() > 0) output.write(tensor.local);
    const ManifestPiece piece{0, static_cast<int64_t>(head.size()) + entry.begin, entry.bytes(), tensor.start,
                              entry.shape};
    shard.tensors.push_back({entry.name, entry.dtype, tensor.shape, {piece}});
  }
  shard.file = output.finish(name);
  return shard;
}

void read_verified(const fs::path& path, const ManifestFile& expected, int64_t chunk_bytes,
                   const std::function<void(int64_t, std::string_view)>& take) {
  const ShardFile file(path);
  if (file.size() != expected.bytes)
    file.refuse(fmt::format("has {} bytes where the manifest has {}", file.size(), expected.bytes));
  std::string buffer(static_cast<size_t>(std::min(chunk_bytes, expected.bytes)), '\0');
  for (size_t chunk = 0; chunk < expected.chunks.size(); ++chunk) {
    const int64_t first = static_cast<int64_t>(chunk) * chunk_bytes;
    buffer.resize(static_cast<size_t>(std::min(chunk_bytes, expected.bytes - first)));
    file.read(buffer.data(), static_cast<int64_t>(buffer.size()), first);
    const uint64_t hash = hash64(buffer);
    if (hash != expected.chunks[chunk])
      file.refuse(fmt::format("bytes {} to {} (chunk {}) have hash {} where the manifest has {}", first,
                              first + static_cast<int64_t>(buffer.size()), chunk, hash_text(hash),
                              hash_text(expected.chunks[chunk])));
    if (take) take(first, buffer);
  }
}

}  // namespace muster::checkpoint
