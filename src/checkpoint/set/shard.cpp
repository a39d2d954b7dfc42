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

TensorEntry entry_of(const StateTensor& tensor) {
  return {.name = tensor.name,
          .dtype = to_dtype(tensor.local.scalar_type()),
          .shape = tensor.piece.local_shape(),
          .begin = 0,
          .end = 0};
}

}  // namespace

at::Tensor elements_of(const StateTensor& tensor) {
  if (!tensor.read) return tensor.local;
  const at::Tensor elements = at::empty(tensor.local.sizes(), tensor.local.options());
  tensor.read(elements);
  return elements;
}

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
    MUSTER_CHECK(tensor.local.is_contiguous() && tensor.local.numel() == tensor.piece.elements(),
                 "{} does not lie as its piece says", tensor.name);
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
    if (tensor.local.numel() > 0) output.write(elements_of(tensor));
    const ManifestPiece piece{0, static_cast<int64_t>(head.size()) + entry.begin, tensor.piece};
    shard.tensors.push_back({entry.name, entry.dtype, tensor.piece.shape(), {piece}});
  }
  shard.file = output.finish(name);
  return shard;
}

// Opens what must be a plain file of its folder: no link, no pipe.
class ShardReader::PlainFile {
 public:
  explicit PlainFile(const fs::path& path)
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
  ~PlainFile() { ::close(fd_); }
  PlainFile(const PlainFile&) = delete;

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

ShardReader::ShardReader(const fs::path& path, const ManifestFile& expected, int64_t chunk_bytes)
    : file_(std::make_unique<PlainFile>(path)), expected_(&expected), chunk_bytes_(chunk_bytes) {
  if (file_->size() != expected.bytes)
    file_->refuse(fmt::format("has {} bytes where the manifest has {}", file_->size(), expected.bytes));
}

ShardReader::~ShardReader() = default;
ShardReader::ShardReader(ShardReader&&) noexcept = default;

std::string_view ShardReader::chunk(int64_t index) {
  if (index == held_) return buffer_;
  held_ = -1;
  const int64_t first = index * chunk_bytes_, last = std::min(expected_->bytes, first + chunk_bytes_);
  buffer_.resize(static_cast<size_t>(last - first));
  file_->read(buffer_.data(), last - first, first);
  const uint64_t hash = hash64(buffer_), expected = expected_->chunks.at(static_cast<size_t>(index));
  if (hash != expected)
    file_->refuse(fmt::format("bytes {} to {} (chunk {}) have hash {} where the manifest has {}", first, last,
                              index, hash_text(hash), hash_text(expected)));
  held_ = index;
  return buffer_;
}

}  // namespace muster::checkpoint
