// The checkpoints of a run as a reader finds them. Everything is taken as coming from outside.
#pragma once
#include "checkpoint/set/claims.h"
#include "checkpoint/set/manifest.h"

namespace muster::checkpoint {

struct Opened {
  Manifest manifest;
  uint64_t id = 0;  // hash of MANIFEST.json: what all ranks must agree on
};

// Opens one: COMMIT fits MANIFEST.json, both fit the folder's name, and the folder holds the manifest's
// files, of its sizes, and nothing else. Throws WorldError(data) naming the file and what is wrong. Contents
// are verified as they are read (ShardReader).
Opened open_checkpoint(const fs::path& folder);
// Reads every byte. Throws as ShardReader does.
void verify_contents(const fs::path& folder, const Manifest& manifest);

enum class Standing {
  valid,        // may be gone on from
  damaged,      // COMMIT is there, and something is not as written
  uncommitted,  // no COMMIT: a save that was cut off
  superseded    // written by a generation that another had taken over from
};
const char* to_string(Standing standing);

struct Listed {
  SetName name;
  fs::path folder;
  Standing standing = Standing::valid;
  std::string reason;            // of any standing but valid
  std::optional<Opened> opened;  // where it could be
};

// All checkpoints of `root`, newest first; none where the folder is absent.
std::vector<Listed> list_checkpoints(const fs::path& root, const Log& log);

// Removes, through `storage`, what no reader needs: saves that were cut off (of `generation` and earlier
// ones), and all but the newest `keep` valid checkpoints. `verified` is the one just read back: nothing goes
// unless it is there, and nothing any more from the moment a later start has claimed the run, which may go on
// from any of them. Throws WorldError(disk); what then is left goes the next time.
void retain(Storage& storage, const fs::path& root, const SetName& verified, int64_t keep, const Log& log);

}  // namespace muster::checkpoint
