// A storage for tests: counts its calls, fails a chosen one, and can forget what was not synced, as a machine
// that loses its power does.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "checkpoint/set/storage.h"

namespace muster::checkpoint {

enum class Fault { none, eio, enospc, short_write, crash };

class FaultyStorage : public Storage {
 public:
  // `graveyard`: an empty folder beside what is tested, on the same file system.
  explicit FaultyStorage(fs::path graveyard) : graveyard_(std::move(graveyard)) {}

  // At call `number`, from 1. After a crash every call fails.
  void fail_at(int64_t number, Fault fault) {
    number_ = number;
    fault_ = fault;
  }
  // Lets others act just before call `number`.
  void call_at(int64_t number, std::function<void()> others) {
    number_ = number;
    others_ = std::move(others);
  }
  int64_t calls() const { return calls_; }
  bool fired() const { return calls_ >= number_; }
  size_t unsynced_names() const { return pending_.size(); }

  // Undoes the last `undone` changes of folders that no folder's sync has covered; `contents`: also empties
  // the files that were not synced.
  void cut_power(size_t undone, bool contents) {
    if (contents)
      for (const fs::path& path : unsynced_)
        if (fs::is_regular_file(path)) fs::resize_file(path, 0);
    for (; undone > 0 && !pending_.empty(); --undone) {
      const Change change = pending_.back();
      pending_.pop_back();
      undo(change);
    }
  }

  void make_folder(const fs::path& path) override {
    count("mkdir");
    posix_.make_folder(path);
    pending_.push_back({Change::made_folder, path, {}});
  }
  int create(const fs::path& path, Cache cache) override {
    count("create");
    const int file = posix_.create(path, cache);
    open_[file] = path;
    unsynced_.insert(path);
    pending_.push_back({Change::created, path, {}});
    return file;
  }
  int64_t write(int file, const void* data, int64_t bytes) override {
    const bool is_short = count("write") == Fault::short_write;
    return posix_.write(file, data, is_short ? (bytes + 1) / 2 : bytes);
  }
  void sync(int file) override {
    count("fsync");
    unsynced_.erase(open_.at(file));
  }
  void close(int file) override {
    open_.erase(file);
    ::close(file);  // a failed close closes too
    count("close");
  }
  void rename(const fs::path& from, const fs::path& to) override {
    count("rename");
    posix_.rename(from, to);
    pending_.push_back({Change::renamed, from, to});
    move_names(from, to, pending_.size() - 1);
  }
  void unlink(const fs::path& path) override {
    count("unlink");
    const fs::path grave = graveyard_ / std::to_string(calls_);
    fs::rename(path, grave);
    pending_.push_back({Change::unlinked, path, grave});
  }
  void remove_folder(const fs::path& path) override {
    count("rmdir");
    posix_.remove_folder(path);
    pending_.push_back({Change::removed_folder, path, {}});
  }
  void sync_folder(const fs::path& path) override {
    count("fsync folder");
    std::erase_if(pending_, [&](const Change& change) { return change.path.parent_path() == path; });
  }
  int64_t free_bytes(const fs::path& folder) override {
    count("statvfs");
    return posix_.free_bytes(folder);
  }

 private:
  struct Change {
    enum Kind { made_folder, created, renamed, unlinked, removed_folder } kind;
    fs::path path, other;
  };

  Fault count(const char* call) {
    if (crashed_) throw std::runtime_error("the process is dead");
    if (++calls_ != number_) return Fault::none;
    if (others_) others_();
    if (fault_ == Fault::none) return fault_;
    if (fault_ == Fault::crash) {
      crashed_ = true;
      throw std::runtime_error("killed");
    }
    if (fault_ == Fault::short_write) return fault_;
    throw WorldError(WorldError::Kind::disk,
                     fmt::format("{}: {}", call, fault_ == Fault::eio ? "EIO" : "ENOSPC"));
  }

  static fs::path moved(const fs::path& path, const fs::path& from, const fs::path& to) {
    if (path == from) return to;
    const fs::path rest = path.lexically_relative(from);
    return rest.empty() || *rest.begin() == ".." ? path : to / rest;
  }
  void move_names(const fs::path& from, const fs::path& to, size_t changes) {
    std::set<fs::path> files;
    for (const fs::path& path : unsynced_) files.insert(moved(path, from, to));
    unsynced_ = std::move(files);
    for (size_t at = 0; at < changes; ++at)
      if (pending_[at].path != from) pending_[at].path = moved(pending_[at].path, from, to);
  }
  void undo(const Change& change) {
    switch (change.kind) {
      case Change::made_folder:
        fs::remove_all(change.path);
        break;
      case Change::created:
        fs::remove(change.path);
        break;
      case Change::renamed:
        fs::rename(change.other, change.path);
        move_names(change.other, change.path, pending_.size());
        break;
      case Change::unlinked:
        // Not in a folder whose own end was synced.
        if (fs::exists(change.path.parent_path())) fs::rename(change.other, change.path);
        break;
      case Change::removed_folder:
        fs::create_directory(change.path);
        break;
    }
  }

  PosixStorage posix_;
  fs::path graveyard_;
  int64_t calls_ = 0, number_ = INT64_MAX;
  Fault fault_ = Fault::none;
  std::function<void()> others_;
  bool crashed_ = false;
  std::map<int, fs::path> open_;
  std::set<fs::path> unsynced_;
  std::vector<Change> pending_;
};

}  // namespace muster::checkpoint
