// Goes on from the newest valid checkpoint of a run, under the contract "deterministic-replay": the same job
// on the same layout.
#pragma once
#include "checkpoint/set/assembly.h"
#include "checkpoint/set/catalog.h"
#include "checkpoint/set/state.h"

namespace muster::checkpoint {

// What the run that loads is; it must be what the run that saved was.
struct Expected {
  std::map<std::string, std::string> job;
  int64_t world = 1;
};

// Throws WorldError(mismatch) naming every key whose value differs.
void check_same_run(const Manifest& manifest, const Expected& expected);

// Fills `state` from the newest valid checkpoint of `root` and returns its manifest; nothing where there is
// no checkpoint at all. Every byte is verified on its way in. One that is damaged is named in the log with
// the steps that it costs, and the one before it is taken. Where all are damaged: WorldError(data); a run
// never starts again from nothing by itself. All ranks agree on one id before anyone loads. Throws
// WorldError(mismatch) where state and checkpoint do not name the same tensors and counters, shapes and
// dtypes. Collective over the world.
std::optional<Manifest> load_newest(Assembly& assembly, const fs::path& root, State& state,
                                    const Expected& expected, int64_t rank, const Log& log);

// The part of it on one rank: fills `state` from one checkpoint.
void load_one(const fs::path& folder, const Manifest& manifest, State& state);

}  // namespace muster::checkpoint
