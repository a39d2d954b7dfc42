// The calls through which a checkpoint reaches the disk, one function a system call, so that a test can fail
// each of them and can forget what was not synced. Errors are WorldError(disk) that name call and path.
#pragma once
#include <atomic>

#include "base/file.h"

namespace muster::checkpoint {

class Storage {
 public:
  virtual ~Storage() = default;
  // Mode 0700; it must not be there.
  virtual void make_folder(const fs::path& path) = 0;
  // A new file, mode 0600: it must not be there, and links are not followed. Returns its descriptor. Whole
  // blocks (kBlock) of aligned memory go past the page cache where `cache` says so and the file system can.
  enum class Cache { use, bypass };
  static constexpr int64_t kBlock = 4096;
  virtual int create(const fs::path& path, Cache cache = Cache::use) = 0;
  // May write less than asked; returns how much.
  virtual int64_t write(int file, const void* data, int64_t bytes) = 0;
  virtual void sync(int file) = 0;
  virtual void close(int file) = 0;
  // `to` must not be there.
  virtual void rename(const fs::path& from, const fs::path& to) = 0;
  virtual void unlink(const fs::path& path) = 0;
  virtual void remove_folder(const fs::path& path) = 0;
  virtual void sync_folder(const fs::path& path) = 0;
  // What an ordinary user may still write.
  virtual int64_t free_bytes(const fs::path& folder) = 0;
};

class PosixStorage : public Storage {
 public:
  void make_folder(const fs::path& path) override;
  int create(const fs::path& path, Cache cache) override;
  int64_t write(int file, const void* data, int64_t bytes) override;
  void sync(int file) override;
  void close(int file) override;
  void rename(const fs::path& from, const fs::path& to) override;
  void unlink(const fs::path& path) override;
  void remove_folder(const fs::path& path) override;
  void sync_folder(const fs::path& path) override;
  int64_t free_bytes(const fs::path& folder) override;

  // From any thread: writes and syncs fail from now on, so that a save under way ends at its next call.
  void give_up() { gave_up_ = true; }

 private:
  void check_wanted() const;
  std::atomic<bool> gave_up_ = false;
};

// One file on its way to the disk. Any error makes it dead: it is never synced again and believed.
class OutputFile {
 public:
  OutputFile(Storage& storage, const fs::path& path, Storage::Cache cache = Storage::Cache::use)
      : storage_(storage), fd_(storage.create(path, cache)) {}
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write_all(std::string_view bytes);
  // On the disk when it returns, but for its name: that is the folder's to sync.
  void finish();
  // Without a sync: others see it, and a loss of power may take it.
  void close();

 private:
  Storage& storage_;
  int fd_;
};

// A small file under its final name, whole or not at all: written beside as `temporary`, synced, renamed, the
// folder synced.
void publish(Storage& storage, const fs::path& folder, const std::string& name, const std::string& temporary,
             std::string_view text);

// Takes a folder of files away: first out of sight under ".del-" (one with a dot is so already), then file by
// file.
void remove_checkpoint(Storage& storage, const fs::path& folder);

}  // namespace muster::checkpoint
