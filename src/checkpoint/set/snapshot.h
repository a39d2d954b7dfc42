// A rank's part of a checkpoint as it was at one moment, in host memory of its own, so that training may go
// on while it is written. The memory is as large as what the rank writes, is taken at the first snapshot, and
// serves all later ones. It is no tensor of the model: the ledger does not hold it, bytes() does.
#pragma once
#include "checkpoint/set/state.h"

namespace muster::checkpoint {

// What the snapshots of `rank` take: what it writes, each tensor rounded up to 64 bytes.
int64_t snapshot_bytes(const State& state, int64_t rank);

class Snapshot {
 public:
  Snapshot() = default;
  ~Snapshot();
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;

  // Copies what `rank` writes of `state`, and all counters. The tensors must be the same each time.
  void take(const State& state, int64_t rank);
  // What was taken: tensors that others write have their names and shapes alone.
  const State& state() const { return state_; }
  int64_t bytes() const { return bytes_; }

 private:
  void allocate(const State& state, int64_t rank);
  State state_;
  void* memory_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace muster::checkpoint
