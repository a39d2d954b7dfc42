// A scratch file that is read and written while its owner computes: past the page cache where the file system
// lets it, by io_uring where the kernel has it, else by threads.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/file.h"

namespace muster::train {

// One read or write. Its owner keeps it, and the memory that it names, until it was waited for.
struct Transfer {
  enum class Kind { read, write };
  Kind kind = Kind::read;
  char* data = nullptr;
  int64_t bytes = 0, offset = 0;

  // The file's own, under its lock.
  int64_t done_bytes = 0;
  int error = 0;
  bool is_under_way = false;
};

// What carries transfers out. begin() may be called from any thread and returns an error number or 0; `done`
// is told of each that was begun, from a thread of the engine: bytes moved, or an error number below 0. Ends
// once it has told of all.
class Engine {
 public:
  using Done = std::function<void(Transfer&, int64_t result)>;
  virtual ~Engine() = default;
  virtual int begin(Transfer& transfer) = 0;
};
// Nothing where the kernel refuses; `why` then says so.
std::unique_ptr<Engine> make_io_uring(int fd, Engine::Done done, std::string& why);
std::unique_ptr<Engine> make_threads(int fd, Engine::Done done);

// Since the file was made.
struct Traffic {
  int64_t read_bytes = 0, written_bytes = 0;
  double busy_seconds = 0;  // of the wall, with at least one transfer under way
};

// What a folder has for files to come: why none can be made in it (empty: they can), and bytes.
struct Room {
  std::string problem;
  int64_t free_bytes = 0;
};
Room room_for_files(const fs::path& folder);

class AsyncFile {
 public:
  // Of memory, offsets and sizes, for the sake of direct transfers.
  static constexpr int64_t kAlign = 4096;
  enum class Kind { best, threads };

  // A file in `folder` that reads as zeros, with room for `bytes`. It has no name from the start on, so that
  // it goes when its process does, whatever ends that; `name` is what messages call it. Throws
  // WorldError(disk) with the bytes needed and found.
  AsyncFile(const fs::path& folder, const std::string& name, int64_t bytes, Kind kind = Kind::best);
  // Waits for what is under way.
  ~AsyncFile();
  AsyncFile(const AsyncFile&) = delete;

  // Begins. What the transfer did before was waited for.
  void begin(Transfer& transfer);
  // Until it has ended; nothing for one that was never begun. Throws WorldError(disk) naming file, offset and
  // cause.
  void wait(Transfer& transfer);

  Traffic traffic() const;
  // "direct, io_uring"; "direct, threads (io_uring: Operation not permitted)"
  const std::string& how() const { return how_; }
  const std::string& label() const { return label_; }
  int fd() const { return fd_; }

 private:
  void reserve(int64_t bytes);
  void ended(Transfer& transfer, int64_t result);
  [[noreturn]] void fail(const std::string& what, int error) const;

  Clock clock_;
  std::string label_, how_;
  int fd_ = -1;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Traffic traffic_;
  std::atomic<bool> is_over_ = false;  // no transfer goes on
  int64_t under_way_ = 0;
  double busy_since_ = 0;
  std::unique_ptr<Engine> engine_;  // ends first
};

}  // namespace muster::train
