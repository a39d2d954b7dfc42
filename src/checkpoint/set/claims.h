// Who writes a run's checkpoints. Every start of a run takes the next generation, durably, before it looks
// for what to go on from, and says before its first step which checkpoint that is. From the first on an
// earlier start removes nothing, so that what is found stays; from the second on nothing that it still writes
// is ever chosen by a reader, whenever it comes: a late write is made harmless, not impossible.
//
//   claims/g2.taken   made before the look; its name is all that counts
//   claims/g2.json    made after the load: generation, incarnation, parent
#pragma once
#include <vector>

#include "base/log.h"
#include "checkpoint/set/names.h"
#include "checkpoint/set/storage.h"

namespace muster::checkpoint {

struct Claim {
  int64_t generation = 0;
  std::string incarnation;
  std::optional<SetName> parent;  // none: from the start
  // Not yet, or never: its start was still looking when it died. It counts as taken, and limits nothing; so
  // does one that cannot be read.
  bool is_decided = true;
};

// By rising generation. One that cannot be read is named in the log.
std::vector<Claim> read_claims(const fs::path& root, const Log& log);
// 0: none.
int64_t newest_generation(const fs::path& root, const Log& log);
// Throws WorldError(fenced) where a start after this generation has taken the run over.
void check_not_taken_over(const fs::path& root, int64_t generation, const Log& log);

// Takes the next generation; its parent is not decided. WorldError(fenced) where another start of the run
// took it first.
Claim take_generation(Storage& storage, const fs::path& root, const Log& log);
// Decides what it goes on from; none: from the start. Once, and before its first step. WorldError(fenced)
// where a later start has taken the run over.
void decide_parent(Storage& storage, const fs::path& root, Claim& taken, std::optional<SetName> parent,
                   const Log& log);

// Whether a checkpoint is of the line that the claims describe: of the newest generation, or not after the
// parent of any later claim.
bool in_lineage(const SetName& name, const std::vector<Claim>& claims);

}  // namespace muster::checkpoint
