#include <liburing.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "train/offload/async_file.h"

namespace muster::train {
namespace {

// More than anybody has under way at a time.
constexpr unsigned kDepth = 64;

// Any thread hands in, one waits for what comes back: the two queues of a ring are apart.
class IoUring final : public Engine {
 public:
  IoUring(int fd, Done done) : fd_(fd), done_(std::move(done)) {}
  ~IoUring() override {
    if (!reaper_.joinable()) return;
    hand_in([](io_uring_sqe* entry) {
      io_uring_prep_nop(entry);
      entry->flags |= IOSQE_IO_DRAIN;  // behind all others
      io_uring_sqe_set_data(entry, nullptr);
    });
    reaper_.join();
    io_uring_queue_exit(&ring_);
  }

  // An error number, or 0.
  int open() {
    if (const int status = io_uring_queue_init(kDepth, &ring_, 0); status < 0) return -status;
    reaper_ = std::thread([this] { reap(); });
    return 0;
  }

  int begin(Transfer& transfer) override {
    return hand_in([&](io_uring_sqe* entry) {
      char* data = transfer.data + transfer.done_bytes;
      const auto bytes = static_cast<unsigned>(transfer.bytes - transfer.done_bytes);
      const auto offset = static_cast<uint64_t>(transfer.offset + transfer.done_bytes);
      transfer.kind == Transfer::Kind::read ? io_uring_prep_read(entry, fd_, data, bytes, offset)
                                            : io_uring_prep_write(entry, fd_, data, bytes, offset);
      io_uring_sqe_set_data(entry, &transfer);
    });
  }

 private:
  template <class Fill>
  int hand_in(Fill&& fill) {
    const std::lock_guard lock(mutex_);
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (!entry) return EBUSY;
    fill(entry);
    const int status = io_uring_submit(&ring_);
    return status < 0 ? -status : 0;
  }

  void reap() {
    while (true) {
      io_uring_cqe* entry = nullptr;
      const int status = io_uring_wait_cqe(&ring_, &entry);
      if (status == -EINTR || status == -EAGAIN) continue;
      MUSTER_CHECK(status == 0, "io_uring gives nothing back: {}", std::strerror(-status));
      auto* transfer = static_cast<Transfer*>(io_uring_cqe_get_data(entry));
      const int result = entry->res;
      io_uring_cqe_seen(&ring_, entry);
      if (!transfer) return;
      done_(*transfer, result);
    }
  }

  int fd_;
  Done done_;
  io_uring ring_{};
  std::mutex mutex_;
  std::thread reaper_;
};

}  // namespace

std::unique_ptr<Engine> make_io_uring(int fd, Engine::Done done, std::string& why) {
  auto ring = std::make_unique<IoUring>(fd, std::move(done));
  const int error = ring->open();
  if (error == 0) return ring;
  why = std::strerror(error);
  return nullptr;
}

}  // namespace muster::train
