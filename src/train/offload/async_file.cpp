#include "train/offload/async_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "base/units.h"

namespace muster::train {
namespace {

// A disk that says nothing for so long is as good as gone.
constexpr std::chrono::seconds kPatience{120};
// A transfer that moves nothing: the file is shorter than it was made.
constexpr int kEnded = -1;

std::string cause(int error) {
  return error == kEnded ? "the file ends there" : std::strerror(error);
}

// Opens past the page cache where the file system has that.
int open_scratch(std::string& path, bool& is_direct) {
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named < 0) return -1;
  const int direct = ::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  ::unlink(path.c_str());
  is_direct = direct >= 0;
  if (!is_direct) return named;
  ::close(named);
  return direct;
}

}  // namespace

Room room_for_files(const fs::path& folder) {
  struct statvfs status {};
  std::string path = (folder / "muster.XXXXXX").string();
  bool is_direct = false;
  const int fd = open_scratch(path, is_direct);
  if (fd < 0 || ::fstatvfs(fd, &status) != 0) return {std::strerror(errno), 0};
  ::close(fd);
  return {"", static_cast<int64_t>(status.f_bavail * status.f_frsize)};
}

AsyncFile::AsyncFile(const fs::path& folder, const std::string& name, int64_t bytes, Kind kind)
    : label_((folder / name).string()) {
  std::string path = label_ + ".XXXXXX";
  bool is_direct = false;
  fd_ = open_scratch(path, is_direct);
  if (fd_ < 0) fail("cannot be made", errno);
  reserve(bytes);
  const Engine::Done done = [this](Transfer& transfer, int64_t result) { ended(transfer, result); };
  std::string why = "not asked for";
  if (kind == Kind::best) engine_ = make_io_uring(fd_, done, why);
  how_ = is_direct ? "direct, " : "through the page cache, ";
  how_ += engine_ ? std::string("io_uring") : fmt::format("threads (io_uring: {})", why);
  if (!engine_) engine_ = make_threads(fd_, done);
}

AsyncFile::~AsyncFile() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return under_way_ == 0; });
    is_over_ = true;
  }
  engine_.reset();
  if (fd_ >= 0) ::close(fd_);
}

// Blocks, where the file system can set them aside: no update then meets a full disk.
void AsyncFile::reserve(int64_t bytes) {
  if (bytes == 0) return;
  int error;
  do error = ::fallocate(fd_, 0, 0, bytes) == 0 ? 0 : errno;
  while (error == EINTR);
  if (error == EOPNOTSUPP) error = ::ftruncate(fd_, bytes) == 0 ? 0 : errno;
  if (error == 0) return;
  struct statvfs status {};
  ::fstatvfs(fd_, &status);
  ::close(std::exchange(fd_, -1));
  if (error != ENOSPC) fail(fmt::format("{} bytes cannot be reserved", format_exact(bytes)), error);
  fail(fmt::format("takes {} bytes, and {} are free", format_exact(bytes),
                   format_exact(static_cast<int64_t>(status.f_bavail * status.f_frsize))),
       error);
}

void AsyncFile::begin(Transfer& transfer) {
  {
    const std::lock_guard lock(mutex_);
    MUSTER_CHECK(!transfer.is_under_way, "a transfer of {} bytes at {} is under way", transfer.bytes,
                 transfer.offset);
    transfer.done_bytes = 0;
    transfer.error = 0;
    transfer.is_under_way = true;
    if (under_way_++ == 0) busy_since_ = clock_.seconds();
  }
  if (const int error = engine_->begin(transfer)) ended(transfer, -error);
}

void AsyncFile::wait(Transfer& transfer) {
  std::unique_lock lock(mutex_);
  const bool has_ended = changed_.wait_for(lock, kPatience, [&] { return !transfer.is_under_way; });
  const int error = has_ended ? std::exchange(transfer.error, 0) : ETIMEDOUT;
  if (error == 0) return;
  fail(fmt::format("{} of {} bytes at {}", transfer.kind == Transfer::Kind::read ? "read" : "write",
                   transfer.bytes, transfer.offset + transfer.done_bytes),
       error);
}

// On a thread of the engine. A transfer that stopped half-way goes on where it stopped.
void AsyncFile::ended(Transfer& transfer, int64_t result) {
  int error = 0;
  if (result < 0) error = static_cast<int>(-result);
  if (result == 0) error = kEnded;
  if (result > 0) transfer.done_bytes += result;
  const bool goes_on = !is_over_ && (error == EINTR || error == EAGAIN ||
                                     (error == 0 && transfer.done_bytes < transfer.bytes));
  if (goes_on) error = engine_->begin(transfer);
  if (goes_on && error == 0) return;

  const std::lock_guard lock(mutex_);
  transfer.error = error;
  transfer.is_under_way = false;
  (transfer.kind == Transfer::Kind::read ? traffic_.read_bytes : traffic_.written_bytes) +=
      transfer.done_bytes;
  if (--under_way_ == 0) traffic_.busy_seconds += clock_.seconds() - busy_since_;
  changed_.notify_all();
}

Traffic AsyncFile::traffic() const {
  const std::lock_guard lock(mutex_);
  Traffic traffic = traffic_;
  if (under_way_ > 0) traffic.busy_seconds += clock_.seconds() - busy_since_;
  return traffic;
}

void AsyncFile::fail(const std::string& what, int error) const {
  throw WorldError(WorldError::Kind::disk, fmt::format("{}: {}: {}", label_, what, cause(error)));
}

}  // namespace muster::train
