// Saves a checkpoint, whole or not at all. The steps, each of which all ranks vote on before the next:
//
//   1 rank 0 looks for room and makes .tmp-step-...<nonce>;
//   2 each rank writes what it owns, hashed as it leaves memory, syncs file and folder, and tells rank 0 of
//   it; 3 rank 0 checks that the pieces cover every tensor once, and writes and syncs MANIFEST.json; 4 rank 0
//   looks whether a later start has claimed the run (then all stop: WorldError(fenced)), renames the
//     folder to its final name, syncs, and publishes COMMIT. Only now does the checkpoint exist.
//   5 rank 0 reads it back, and takes older ones away.
//
// An error of any call makes its file dead: no call is tried again. The save is abandoned, what it left is
// removed, and training goes on.
#pragma once
#include "checkpoint/set/assembly.h"
#include "checkpoint/set/claims.h"
#include "checkpoint/set/manifest.h"
#include "checkpoint/set/state.h"

namespace muster::checkpoint {

struct SaveOutcome {
  SetName name;
  int64_t bytes = 0;
  std::string failure;  // why the save was abandoned; empty: it is durable
  bool is_durable() const { return failure.empty(); }
};

class Saver {
 public:
  // `claim` is rank 0's, known to all.
  Saver(Storage& storage, Assembly& assembly, fs::path root, Claim claim, int64_t rank, int64_t keep,
        const Log& log)
      : storage_(storage),
        assembly_(assembly),
        root_(std::move(root)),
        claim_(std::move(claim)),
        rank_(rank),
        keep_(keep),
        log_(log) {}

  // `facts`: step, contract, layout, world, job, code, cursor, learning rate; the rest is filled in.
  // Collective over the world; all ranks get the same outcome.
  SaveOutcome save(const State& state, Manifest facts);

 private:
  struct Attempt;
  void make_folder(Attempt& attempt, const State& state);
  Json write_own(const Attempt& attempt, const State& state);
  void write_manifest(Attempt& attempt, const State& state, const std::vector<Json>& told);
  void commit(Attempt& attempt);
  void discard(const Attempt& attempt);
  std::vector<Json> vote(const std::function<Json()>& body);
  bool leads() const { return rank_ == 0; }

  Storage& storage_;
  Assembly& assembly_;
  fs::path root_;
  Claim claim_;
  int64_t rank_, keep_;
  const Log& log_;
};

}  // namespace muster::checkpoint
