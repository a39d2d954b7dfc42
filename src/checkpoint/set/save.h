// Saves a checkpoint, whole or not at all.
//
//   1 rank 0 looks for room and makes .tmp-step-...<nonce>;
//   2 each rank writes what it owns, hashed as it is in memory, syncs file and folder, and leaves a note of
//     what it wrote beside it;
//   3 when all ranks have said that they did so, rank 0 reads the notes, checks that the pieces cover every
//     tensor once, writes and syncs MANIFEST.json, and takes the notes away;
//   4 rank 0 looks whether a later start has claimed the run (then all stop: WorldError(fenced)), renames the
//     folder to its final name, syncs, and publishes COMMIT. Only now does the checkpoint exist.
//   5 rank 0 reads it back; older ones go by tidy(), which nobody need wait for.
//
// An error of any call makes its file dead: no call is tried again. The save is given up, what it left is
// removed, and training goes on.
//
// Nothing here talks to another rank but save(): the steps may run on a thread of their own while the groups
// belong to training, and whoever runs them brings the votes (train/checkpoints.h).
#pragma once
#include <atomic>
#include <memory>

#include "checkpoint/set/assembly.h"
#include "checkpoint/set/claims.h"
#include "checkpoint/set/manifest.h"
#include "checkpoint/set/state.h"

namespace muster::checkpoint {

struct SaveOutcome {
  SetName name;
  int64_t bytes = 0;
  std::string failure;  // why the save was given up; empty: it is durable
  bool is_durable() const { return failure.empty(); }
};

// A save under way: the same on all ranks, without a message.
struct Save {
  Manifest manifest;
  std::string nonce;
  fs::path folder;  // where it stands now
  std::atomic<bool> given_up = false;
};

// Bytes of the logical tensors that a rank holds parts of.
int64_t whole_bytes(const State& state);

class Saver {
 public:
  // `claim` is rank 0's, known to all.
  Saver(Storage& storage, fs::path root, Claim claim, int64_t rank, int64_t world, int64_t keep,
        const Log& log)
      : storage_(storage),
        root_(std::move(root)),
        claim_(std::move(claim)),
        rank_(rank),
        world_(world),
        keep_(keep),
        log_(log) {}

  // `facts`: step, contract, layout, world, job, code, cursor, learning rate; the rest is filled in. All
  // ranks begin the same saves in the same order.
  std::shared_ptr<Save> begin(Manifest facts);
  // Of rank 0, before or while the others write: step 1. `bytes`: whole_bytes of the state.
  void make_folder(Save& save, int64_t bytes);
  // Of every rank. Waits for the folder; throws where the save is given up before that.
  void write_own(const Save& save, const State& state);
  // Of rank 0, once all ranks have written: steps 3 to 5. Returns the bytes of the checkpoint. WorldError
  // (fenced) where the run was taken over.
  int64_t commit(Save& save, const State& state);
  // Of rank 0, after a commit: takes away what `newest`, just committed, makes needless. What fails is told
  // in the log and stays for the next time.
  void tidy(const SetName& newest);
  // Of rank 0: removes what a save left.
  void discard(const Save& save);

  // All of it, while nothing else goes on. Collective over the world; all ranks get the same outcome.
  SaveOutcome save(Assembly& assembly, const State& state, Manifest facts);

 private:
  void write_manifest(Save& save, const State& state);
  void gather_notes(Save& save);
  bool leads() const { return rank_ == 0; }

  Storage& storage_;
  fs::path root_;
  Claim claim_;
  int64_t rank_, world_, keep_;
  const Log& log_;
  int64_t begun_ = 0;
};

// What failed on which rank, where anything did on any of them; `own` is empty where all is well. WorldError
// (fenced) on all ranks where one is fenced. Collective over the world.
struct Failure {
  std::string text;
  bool is_fenced = false;
  // Of the error under way, to be called where it is caught.
  static Failure of_current_exception();
};
std::string first_failure(Assembly& assembly, int64_t rank, const Failure& own);

}  // namespace muster::checkpoint
