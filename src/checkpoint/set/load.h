// Goes on from the newest valid checkpoint of a run, on the layout that saved it or on any other.
#pragma once
#include <set>

#include "base/error.h"
#include "checkpoint/set/assembly.h"
#include "checkpoint/set/catalog.h"
#include "checkpoint/set/state.h"

namespace muster::checkpoint {

// Same layout: the run goes on bit for bit.
constexpr const char* kReplay = "deterministic-replay";
// Another layout or number of processes: the same tensors, the same samples in the same global order, and a
// trajectory that differs by the order of sums (docs/checkpoints.md has the tolerance).
constexpr const char* kCoverage = "coverage-equivalent";

// What the run that loads is.
struct Expected {
  std::map<std::string, std::string> job;  // as a manifest has it
  std::set<std::string> layout_keys;       // those of them that decide only who computes what
  int64_t world = 1;
  std::string transport{};           // empty: not known yet
  std::string contract = kReplay;    // the weakest that it accepts
  std::vector<ManifestData> data{};  // none: not asked of this rank
};

// The keys in which the run that saved and the one that loads differ, as text; empty: none.
struct Differences {
  std::string job, layout;
  std::vector<Problem> data;  // a file each
};
Differences compare(const Manifest& manifest, const Expected& expected);
// The contract under which the run goes on from it. Throws WorldError(mismatch) where the jobs or their data
// differ, or the layouts, and the run accepts only a replay.
const char* contract_of(const Manifest& manifest, const Expected& expected);

// Fills `state` from the newest valid checkpoint of `root` and returns its manifest; nothing where there is
// no checkpoint at all. Every byte is verified on its way in. One that is damaged is named in the log with
// the steps that it costs, and the one before it is taken. Where all are damaged: WorldError(data); a run
// never starts again from nothing by itself. All ranks agree on one id before anyone loads. Throws
// WorldError(mismatch) where state and checkpoint do not name the same tensors and counters, shapes and
// dtypes, or contract_of() refuses. Collective over the world.
std::optional<Manifest> load_newest(Assembly& assembly, const fs::path& root, State& state,
                                    const Expected& expected, int64_t rank, const Log& log);

// The part of it on one rank: fills `state` from one checkpoint. Reads the chunks that hold something of it,
// each once and verified; takes one chunk of memory.
void load_one(const fs::path& folder, const Manifest& manifest, State& state);

}  // namespace muster::checkpoint
