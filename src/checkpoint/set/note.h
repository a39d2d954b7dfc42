// What a rank tells rank 0 of the file that it wrote, as a file beside it: "note.r<rank>.json". It goes
// before the checkpoint exists. Two lines: the JSON of a part of a manifest, and its xxh3.
#pragma once
#include "checkpoint/set/manifest.h"
#include "checkpoint/set/storage.h"

namespace muster::checkpoint {

struct Note {
  std::vector<ManifestFile> files;  // one, or none where the rank owns nothing
  std::vector<ManifestTensor> tensors;
};

std::string note_name(int64_t rank);
// Not synced: a save whose notes are lost was not committed, and is none.
void write_note(Storage& storage, const fs::path& folder, int64_t rank, const Note& note);
// WorldError(data) naming the file and what is wrong with it.
Note read_note(const fs::path& folder, int64_t rank);

}  // namespace muster::checkpoint
