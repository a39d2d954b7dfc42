// Who writes a run's checkpoints. Every start of a run claims the next generation, durably, before its first
// step, and names the checkpoint that it goes on from. What an earlier generation writes after that is never
// chosen by a reader, whenever it comes: a late write is made harmless, not impossible.
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
  bool is_readable = true;        // one that is not counts as taken, and limits nothing
};

// By rising generation. One that cannot be read is named in the log.
std::vector<Claim> read_claims(const fs::path& root, const Log& log);

// Takes the next generation. WorldError(fenced) where another start of the run took it first.
Claim claim_generation(Storage& storage, const fs::path& root, std::optional<SetName> parent, const Log& log);

// Whether a checkpoint is of the line that the claims describe: of the newest generation, or not after the
// parent of any later claim.
bool in_lineage(const SetName& name, const std::vector<Claim>& claims);

}  // namespace muster::checkpoint
