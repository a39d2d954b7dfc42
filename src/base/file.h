// Files that are read with care and written so that they are never half there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace muster {

namespace fs = std::filesystem;

// An open file descriptor with its path, closed by its owner's end. Errors are WorldError(disk) naming the
// path.
class File {
 public:
  File() = default;
  static File open_read(const fs::path& path);
  // A new or emptied file, mode 0600 less the umask.
  static File create(const fs::path& path);
  static File append(const fs::path& path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  int64_t size() const;
  // Exactly `bytes` from `offset`, through EINTR and short reads; a file that ends early is an error.
  void read_at(void* out, size_t bytes, int64_t offset) const;
  void write_all(const void* data, size_t bytes);
  void write_all(std::string_view text) { write_all(text.data(), text.size()); }
  void sync();
  // Reports what close(2) reports (quota, NFS); the destructor does not.
  void close();
  int fd() const { return fd_; }
  const fs::path& path() const { return path_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  File(int fd, fs::path path) : fd_(fd), path_(std::move(path)) {}
  int fd_ = -1;
  fs::path path_;
};

// The whole file; larger than `most_bytes` is refused before anything is read.
std::string read_text(const fs::path& path, int64_t most_bytes = int64_t{64} << 20);
// Writes beside, syncs, renames over, syncs the folder: a reader sees the old or the new, whole.
void write_text(const fs::path& path, std::string_view text);
void sync_folder(const fs::path& folder);

}  // namespace muster
