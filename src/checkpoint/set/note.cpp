#include "checkpoint/set/note.h"

#include "base/error.h"
#include "base/hash.h"

namespace muster::checkpoint {
namespace {

std::string line_of_hash(std::string_view json) {
  return "\n" + hash_text(hash64(json)) + "\n";
}

}  // namespace

std::string note_name(int64_t rank) {
  return fmt::format("note.r{}.json", rank);
}

void write_note(Storage& storage, const fs::path& folder, int64_t rank, const Note& note) {
  Manifest part;
  part.files = note.files;
  part.tensors = note.tensors;
  const std::string json = to_json(part).dump();
  OutputFile file(storage, folder / note_name(rank));
  file.write_all(json + line_of_hash(json));
  file.close();
}

Note read_note(const fs::path& folder, int64_t rank) {
  const fs::path path = folder / note_name(rank);
  const std::string text = read_text(path, kMostManifestBytes);
  const std::string json = text.substr(0, text.find('\n'));
  if (text != json + line_of_hash(json))
    throw WorldError(WorldError::Kind::data, path.string() + ": is not what was written");
  Manifest part = read_manifest(json, path.string());
  return {std::move(part.files), std::move(part.tensors)};
}

}  // namespace muster::checkpoint
