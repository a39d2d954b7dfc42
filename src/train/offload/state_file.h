// The optimizer's states in a file: a part of it at a time passes through a small ring of buffers in host
// memory. While a part is updated the next one is read and the last one is written; each is hashed as it
// leaves memory, and what comes back must have that hash.
//
// The file is scratch of one process (async_file.h): a run goes on from checkpoints, which read and fill it a
// tensor at a time, never from what a killed process left.
#pragma once
#include <array>
#include <optional>
#include <ranges>
#include <vector>

#include "nn/executor.h"
#include "telemetry/state_file_figures.h"
#include "train/offload/async_file.h"

namespace muster::train {

class StateFile {
 public:
  // Large enough that a disk works at its full rate.
  static constexpr int64_t kPartBytes = 8 << 20;
  struct Options {
    fs::path folder;
    int64_t rank = 0;
    int64_t part_bytes = kPartBytes;  // most that a part has of one state; a multiple of AsyncFile::kAlign
    AsyncFile::Kind kind = AsyncFile::Kind::best;
  };
  StateFile(Options options, at::ScalarType format) : options_(std::move(options)), format_(format) {}

  // Elements [first, first + elements) of all states beside one tensor.
  struct Part {
    size_t tensor = 0;
    int64_t first = 0, elements = 0, states = 0;
    int64_t stride = 0;  // bytes of one state, padded
    int64_t offset = 0;  // in the file
    uint64_t hash = 0;   // of what was written last
    int64_t bytes() const { return states * stride; }
  };

  // First all tensors, in the order of an update: `states` of them beside each; returns the tensor's number.
  size_t add(int64_t elements, int64_t states);
  // Then the ring (category host_optimizer) and, but on meta, the file: all states are zero.
  void open(nn::Executor& run);
  int64_t file_bytes() const { return file_bytes_; }
  // The numbers of a tensor's parts.
  auto parts_of(size_t tensor) const {
    return std::views::iota(ranges_[tensor].first, ranges_[tensor].second);
  }
  const Part& part(size_t number) const { return parts_[number]; }

  // The states of a part, to be changed in place; each part once an update, in order. Throws WorldError(data)
  // naming rank, file and offset where they are not what was written, WorldError(disk) where the disk fails.
  std::vector<at::Tensor> take(nn::Executor& run, size_t number);
  // They were changed.
  void put(nn::Executor& run);

  // Between updates: elements from `first` on of one state beside a tensor, into and out of `local`, flat.
  void read(size_t tensor, int64_t state, int64_t first, const at::Tensor& local);
  void write(size_t tensor, int64_t state, int64_t first, const at::Tensor& local);

  // Since it was opened; all 0 on meta and where there is no state.
  telemetry::StateFileFigures figures() const;
  // What carries it, AsyncFile::how(); empty on meta and where there is no state.
  std::string how() const { return file_ ? file_->how() : ""; }
  // For tests that tamper with it.
  int fd() const { return file_->fd(); }

 private:
  static constexpr size_t kRing = 3;  // one read, one updated, one written
  struct Slot {
    at::Tensor bytes;
    std::optional<size_t> part;  // what it holds, or is to hold
    Transfer transfer;
  };

  Slot& slot(size_t turn) { return ring_[turn % kRing]; }
  void begin(Slot& slot, size_t part, Transfer::Kind kind);
  void begin_read(Slot& slot, size_t part);
  void begin_write(Slot& slot);
  void wait(Slot& slot);
  void settle();
  void check(const Slot& slot) const;
  std::string_view contents(const Slot& slot) const;
  at::Tensor state_in(const Slot& slot, const Part& part, int64_t state) const;
  Slot& hold(size_t part);
  template <class Copy>
  void for_overlaps(size_t tensor, int64_t first, int64_t elements, Copy&& copy);

  Options options_;
  at::ScalarType format_;
  std::vector<Part> parts_;
  std::vector<std::pair<size_t, size_t>> ranges_;  // of each tensor's parts
  int64_t file_bytes_ = 0;
  std::array<Slot, kRing> ring_;
  size_t turn_ = 0, next_ = 0;  // of the ring, and the part that is due
  double exposed_seconds_ = 0;
  std::optional<AsyncFile> file_;  // ends first: it uses the ring
};

}  // namespace muster::train
