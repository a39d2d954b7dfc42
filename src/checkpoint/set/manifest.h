// What a checkpoint says of itself. The format, top to bottom:
//
//   checkpoints/
//     claims/g<generation>.json    one a start of the run: { "generation", "incarnation", "parent" }
//     step-<8 digits>.g<generation>/
//       r<rank>.<nonce>.st         a safetensors file, one a rank that writes
//       MANIFEST.json              this file's grammar
//       COMMIT                     made last: { "step", "generation", "manifest": xxh3 of MANIFEST.json }
//     .tmp-step-...<nonce>/        a save under way, or one that was cut off
//     .del-step-.../               a checkpoint being removed
//
//   MANIFEST.json = { "schema": 1, "step", "generation", "incarnation", "parent": name or null, "contract",
//     "layout", "world", "job": { "section.key": TOML text ... }, "job_hash", "code": { NAME: version ... },
//     "cursor": { "next_sample" }, "data": [ { "field", "path", "bytes", "hash" } ... ], "learning_rate",
//     "counters": { NAME: number ... }, "chunk_bytes", "bytes", "files":   [ { "name", "bytes", "chunks": [
//     xxh3 of each chunk_bytes ... ] } ... ], "tensors": [ { "name", "dtype", "shape",
//                    "pieces": [ { "file": index, "offset": bytes from the file's start,
//                                  "dim", "runs": [ [ first index, indices ] ... ],
//                                  "begin", "end" } ... ] } ... ] }
//
// A piece (spec/mesh/piece.h) holds, of the part of the tensor that has the indices `runs` of `dim`,
// flattened row-major, the elements [begin, end). The pieces of a tensor hold each of its elements once.
//
// Hashes are 16 hexadecimal digits, of the memory that was written, never of what a disk gave back. The
// random state is no entry: every draw is a function of the job's seed, the step and the position. The
// learning rate is written for people: it is a function of the step.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/dtype.h"
#include "checkpoint/set/names.h"
#include "spec/mesh/piece.h"

namespace muster::checkpoint {

constexpr int64_t kSchema = 2;  // 1 had boxes in place of pieces
constexpr int64_t kChunkBytes = int64_t{8} << 20;
constexpr int64_t kMostManifestBytes = int64_t{256} << 20;

struct ManifestFile {
  std::string name;
  int64_t bytes = 0;
  std::vector<uint64_t> chunks;
};

struct ManifestPiece {
  int64_t file = 0;
  int64_t offset = 0;  // a multiple of an element's bytes
  spec::Piece piece;
};

struct ManifestTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<ManifestPiece> pieces;
  int64_t bytes_of(const ManifestPiece& p) const { return p.piece.elements() * checkpoint::bytes_of(dtype); }
};

// A file of the training data, as it was when the run that saved began (data/fingerprint.h).
struct ManifestData {
  std::string field;  // the setting that names it
  std::string path;
  int64_t bytes = 0;
  uint64_t hash = 0;
};

struct Manifest {
  SetName name;
  std::string incarnation;
  std::optional<SetName> parent;
  std::string contract, layout;
  std::string transport;  // by which the ranks made their sums (comm::Groups); empty: unknown
  int64_t world = 1;
  std::map<std::string, std::string> job;  // what must be equal for a replay
  std::map<std::string, std::string> code;
  int64_t next_sample = 0;
  std::vector<ManifestData> data;  // none in a checkpoint that was saved before there was an entry for it
  double learning_rate = 0;
  std::map<std::string, int64_t> counters;
  int64_t chunk_bytes = kChunkBytes;
  std::vector<ManifestFile> files;
  std::vector<ManifestTensor> tensors;

  int64_t bytes() const;  // of all files
};

Json to_json(const Manifest& manifest);
// Reads text from outside and checks it as a whole: plain file names, sizes that fit their files, shapes
// whose bytes are right, pieces that tile their tensor. Throws WorldError(data) naming `source` and what is
// wrong.
Manifest parse_manifest(std::string_view text, const std::string& source);
// The same of a part, whose pieces need not tile anything yet.
Manifest read_manifest(std::string_view text, const std::string& source);

// Takes in what one rank wrote: a part with one file. Throws WorldError(data) where it holds a tensor with
// another shape or dtype than a part before it.
void add_part(Manifest& manifest, Manifest part);

// Throws WorldError(data) unless the pieces of each tensor cover it, each element once.
void check_tiling(const Manifest& manifest, const std::string& source);

// The whole text of COMMIT. A file with any other byte is no COMMIT.
std::string commit_text(const SetName& name, std::string_view manifest_text);

// As a file of ours spells one.
std::string hash_text(uint64_t hash);
uint64_t hash_of_job(const std::map<std::string, std::string>& job);

}  // namespace muster::checkpoint
