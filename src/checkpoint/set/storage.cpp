#include "checkpoint/set/storage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

namespace muster::checkpoint {
namespace {

[[noreturn]] void fail(const char* call, const std::string& what, int error) {
  throw WorldError(WorldError::Kind::disk, fmt::format("{} {}: {}", call, what, std::strerror(error)));
}

// A descriptor's path, for messages.
std::string name_of(int file) {
  std::error_code ignored;
  return fs::read_symlink(fmt::format("/proc/self/fd/{}", file), ignored).string();
}

// A write that is not of whole aligned blocks, a file's last one or what follows a short one, goes through
// the page cache. False where it would anyway.
bool leaves_direct_mode(int file) {
  const int flags = ::fcntl(file, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0 && ::fcntl(file, F_SETFL, flags & ~O_DIRECT) == 0;
}

}  // namespace

void PosixStorage::make_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) != 0) fail("mkdir", path.string(), errno);
}

int PosixStorage::create(const fs::path& path, Cache cache) {
  int fd;
  do fd = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) fail("create", path.string(), errno);
  // A file system without it refuses; the page cache does then.
  if (cache == Cache::bypass) ::fcntl(fd, F_SETFL, O_DIRECT);
  return fd;
}

int64_t PosixStorage::write(int file, const void* data, int64_t bytes) {
  check_wanted();
  ssize_t put;
  do put = ::write(file, data, static_cast<size_t>(bytes));
  while (put < 0 && (errno == EINTR || (errno == EINVAL && leaves_direct_mode(file))));
  if (put < 0) fail("write", name_of(file), errno);
  return put;
}

void PosixStorage::sync(int file) {
  check_wanted();
  if (::fsync(file) != 0) fail("fsync", name_of(file), errno);
}

void PosixStorage::close(int file) {
  if (::close(file) != 0) fail("close", "a shard", errno);
}

void PosixStorage::rename(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return;
  // NFS cannot: there a plain rename still refuses a folder that holds anything, and a file's name carries
  // our nonce or is looked for first.
  if (errno != EINVAL && errno != ENOSYS) fail("rename to", to.string(), errno);
  if (fs::exists(fs::symlink_status(to))) fail("rename to", to.string(), EEXIST);
  if (::rename(from.c_str(), to.c_str()) != 0) fail("rename to", to.string(), errno);
}

void PosixStorage::unlink(const fs::path& path) {
  if (::unlink(path.c_str()) != 0) fail("unlink", path.string(), errno);
}

void PosixStorage::remove_folder(const fs::path& path) {
  if (::rmdir(path.c_str()) != 0) fail("rmdir", path.string(), errno);
}

void PosixStorage::sync_folder(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("open folder", path.string(), errno);
  const int result = ::fsync(fd), error = errno;
  ::close(fd);
  if (result != 0) fail("fsync folder", path.string(), error);
}

int64_t PosixStorage::free_bytes(const fs::path& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) fail("statvfs", folder.string(), errno);
  return static_cast<int64_t>(status.f_bavail) * static_cast<int64_t>(status.f_frsize);
}

void PosixStorage::check_wanted() const {
  if (gave_up_) throw WorldError(WorldError::Kind::disk, "the save is no longer wanted");
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  try {
    storage_.close(fd_);
  } catch (const std::exception&) {
    // Its owner is already being told of another error.
  }
}

void OutputFile::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const int64_t put = storage_.write(fd_, bytes.data(), static_cast<int64_t>(bytes.size()));
    if (put <= 0) throw WorldError(WorldError::Kind::disk, "write: the disk takes no more bytes");
    bytes.remove_prefix(static_cast<size_t>(put));
  }
}

void OutputFile::finish() {
  storage_.sync(fd_);
  close();
}

void OutputFile::close() {
  storage_.close(std::exchange(fd_, -1));
}

void publish(Storage& storage, const fs::path& folder, const std::string& name, const std::string& temporary,
             std::string_view text) {
  OutputFile file(storage, folder / temporary);
  file.write_all(text);
  file.finish();
  storage.rename(folder / temporary, folder / name);
  storage.sync_folder(folder);
}

void remove_checkpoint(Storage& storage, const fs::path& folder) {
  const std::string name = folder.filename().string();
  fs::path hidden = folder;
  if (!name.starts_with(".")) {
    hidden = folder.parent_path() / (".del-" + name);
    storage.rename(folder, hidden);
  }
  const std::vector<fs::directory_entry> entries(fs::directory_iterator(hidden), {});
  for (const fs::directory_entry& entry : entries) storage.unlink(entry.path());
  storage.remove_folder(hidden);
}

}  // namespace muster::checkpoint
