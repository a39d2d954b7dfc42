#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace muster {
namespace {

[[noreturn]] void fail(const char* action, const fs::path& path, int error) {
  throw WorldError(WorldError::Kind::disk,
                   fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(error)));
}

int open_or_throw(const fs::path& path, int flags, const char* action) {
  int fd;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) fail(action, path, errno);
  return fd;
}

}  // namespace

File File::open_read(const fs::path& path) {
  return {open_or_throw(path, O_RDONLY, "open"), path};
}
File File::create(const fs::path& path) {
  return {open_or_throw(path, O_WRONLY | O_CREAT | O_TRUNC, "create"), path};
}
File File::append(const fs::path& path) {
  return {open_or_throw(path, O_WRONLY | O_CREAT | O_APPEND, "append to"), path};
}

File::File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}
File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

int64_t File::size() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) fail("stat", path_, errno);
  return status.st_size;
}

void File::read_at(void* out, size_t bytes, int64_t offset) const {
  auto* to = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = ::pread(fd_, to, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path_, errno);
    if (got == 0)
      throw WorldError(
          WorldError::Kind::data,
          fmt::format("{} ends at byte {}, {} bytes before what was asked", path_.string(), offset, bytes));
    to += got;
    offset += got;
    bytes -= static_cast<size_t>(got);
  }
}

void File::write_all(const void* data, size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::write(fd_, from, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("write", path_, errno);
    from += put;
    bytes -= static_cast<size_t>(put);
  }
}

void File::sync() {
  if (::fsync(fd_) != 0) fail("sync", path_, errno);
}

void File::close() {
  if (fd_ >= 0 && ::close(std::exchange(fd_, -1)) != 0) fail("close", path_, errno);
}

std::string read_text(const fs::path& path, int64_t most_bytes) {
  const File file = File::open_read(path);
  const int64_t size = file.size();
  if (size > most_bytes)
    throw WorldError(WorldError::Kind::data, fmt::format("{} has {} bytes, more than the {} allowed here",
                                                         path.string(), size, most_bytes));
  std::string text(static_cast<size_t>(size), '\0');
  file.read_at(text.data(), text.size(), 0);
  return text;
}

void sync_folder(const fs::path& folder) {
  const fs::path place = folder.empty() ? fs::path(".") : folder;
  const int fd = open_or_throw(place, O_RDONLY | O_DIRECTORY, "open folder");
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  if (result != 0) fail("sync folder", place, error);
}

void write_text(const fs::path& path, std::string_view text) {
  const fs::path beside = path.string() + fmt::format(".new-{}", ::getpid());
  File file = File::create(beside);
  file.write_all(text);
  file.sync();
  file.close();
  if (::rename(beside.c_str(), path.c_str()) != 0) fail("rename", beside, errno);
  sync_folder(path.parent_path());
}

}  // namespace muster
