#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <thread>

#include "train/offload/async_file.h"

namespace muster::train {
namespace {

// One reads ahead while the other writes behind.
class Threads final : public Engine {
 public:
  Threads(int fd, Done done) : fd_(fd), done_(std::move(done)) {
    for (std::thread& thread : threads_) thread = std::thread([this] { work(); });
  }
  ~Threads() override {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  int begin(Transfer& transfer) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(&transfer);
    }
    changed_.notify_one();
    return 0;
  }

 private:
  void work() {
    while (Transfer* transfer = next()) {
      const int64_t moved = move(*transfer);
      done_(*transfer, moved < 0 ? -errno : moved);
    }
  }
  Transfer* next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_over_ || !queue_.empty(); });
    if (queue_.empty()) return nullptr;
    Transfer* first = queue_.front();
    queue_.pop_front();
    return first;
  }
  int64_t move(const Transfer& transfer) const {
    char* data = transfer.data + transfer.done_bytes;
    const auto bytes = static_cast<size_t>(transfer.bytes - transfer.done_bytes);
    const int64_t offset = transfer.offset + transfer.done_bytes;
    return transfer.kind == Transfer::Kind::read ? ::pread(fd_, data, bytes, offset)
                                                 : ::pwrite(fd_, data, bytes, offset);
  }

  int fd_;
  Done done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Transfer*> queue_;
  bool is_over_ = false;
  std::array<std::thread, 2> threads_;
};

}  // namespace

std::unique_ptr<Engine> make_threads(int fd, Engine::Done done) {
  return std::make_unique<Threads>(fd, std::move(done));
}

}  // namespace muster::train
