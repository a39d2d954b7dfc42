#include <liburing.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "train/offload/async_file.h"

namespace muster::train {
namespace {

// More than anybody has under way at a time.
constexpr unsigned kDepth = 64;
// Ten seconds for a kernel that is short of something.
constexpr int kTries = 10'000;
constexpr std::chrono::milliseconds kPause{1};

bool is_fleeting(int status) {
  return status == -EINTR || status == -EAGAIN || status == -EBUSY || status == -ETIME;
}

// Any thread hands in, one waits for what comes back: the two queues of a ring are apart.
class IoUring final : public Engine {
 public:
  IoUring(int fd, Done done) : fd_(fd), done_(std::move(done)) {}
  ~IoUring() override {
    if (!reaper_.joinable()) return;
    is_over_ = true;
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
    // Without it a wait with a timeout hands in an entry of its own, beside those of other threads.
    if ((ring_.features & IORING_FEAT_EXT_ARG) == 0) {
      io_uring_queue_exit(&ring_);
      return ENOSYS;
    }
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
    if (broken_ != 0) return broken_;
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (!entry) return EBUSY;
    fill(entry);
    // An entry that was not taken stays in the queue: it must not be handed in a second time.
    int status = io_uring_submit(&ring_);
    for (int tries = 0; tries < kTries && is_fleeting(status); ++tries) {
      std::this_thread::sleep_for(kPause);
      status = io_uring_submit(&ring_);
    }
    broken_ = status < 0 ? -status : 0;
    return broken_;
  }

  void reap() {
    while (true) {
      io_uring_cqe* entry = nullptr;
      __kernel_timespec look{.tv_sec = 0, .tv_nsec = 100'000'000};
      const int status = io_uring_wait_cqe_timeout(&ring_, &entry, &look);
      if (status < 0) {
        // The kernel gives nothing back: who waits for a transfer is told by its patience.
        if (is_over_ && (broken_ != 0 || !is_fleeting(status))) return;
        if (status != -ETIME) std::this_thread::sleep_for(kPause);
        continue;
      }
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
  std::atomic<int> broken_ = 0;  // why nothing can be handed in any more; what waits in the queue stays there
  std::atomic<bool> is_over_ = false;
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
