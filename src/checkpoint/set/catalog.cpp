#include "checkpoint/set/catalog.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/set/shard.h"

namespace muster::checkpoint {
namespace {

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw WorldError(WorldError::Kind::data, path.string() + ": " + what);
}

void check_plain(const fs::path& path) {
  const fs::file_status status = fs::symlink_status(path);
  if (!fs::exists(status)) refuse(path, "is missing");
  if (fs::is_symlink(status)) refuse(path, "is a link");
  if (!fs::is_regular_file(status)) refuse(path, "is not a regular file");
}

// A small file of a checkpoint.
std::string read_plain(const fs::path& path, int64_t most_bytes) {
  check_plain(path);
  return read_text(path, most_bytes);
}

void check_files(const fs::path& folder, const Manifest& manifest) {
  std::set<std::string> expected{kManifest, kCommit};
  for (const ManifestFile& file : manifest.files) {
    expected.insert(file.name);
    const fs::path path = folder / file.name;
    check_plain(path);
    const auto bytes = static_cast<int64_t>(fs::file_size(path));
    if (bytes != file.bytes)
      refuse(path, fmt::format("has {} bytes where the manifest has {}", bytes, file.bytes));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (!expected.contains(entry.path().filename().string()))
      refuse(entry.path(), "is no file of this checkpoint");
}

bool is_cut_off(const std::string& name) {
  return name.starts_with(".tmp-") || name.starts_with(".del-");
}

// Of ".tmp-step-00000020.g1.<nonce>" or ".del-step-00000020.g1".
int64_t generation_of(const std::string& name) {
  std::string rest = name.substr(5);
  if (const size_t nonce = rest.find('.', rest.find(".g") + 1); nonce != rest.npos) rest.resize(nonce);
  const auto set = parse_set_name(rest);
  return set ? set->generation : INT64_MAX;
}

void remove_cut_off(Storage& storage, const fs::path& root, int64_t generation) {
  std::vector<fs::path> cut_off;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (is_cut_off(name) && generation_of(name) <= generation) cut_off.push_back(entry.path());
  }
  for (const fs::path& folder : cut_off) remove_checkpoint(storage, folder);
}

Listed look_at(const fs::path& folder, const SetName& name, const std::vector<Claim>& claims) {
  Listed listed{name, folder, Standing::valid, "", std::nullopt};
  if (!fs::is_directory(fs::symlink_status(folder))) {
    listed.standing = Standing::damaged;
    listed.reason = folder.string() + ": is not a folder";
  } else if (!fs::exists(fs::symlink_status(folder / kCommit))) {
    listed.standing = Standing::uncommitted;
    listed.reason = "it has no COMMIT: a save that was cut off";
  } else {
    try {
      listed.opened = open_checkpoint(folder);
    } catch (const std::exception& error) {
      listed.standing = Standing::damaged;
      listed.reason = error.what();
    }
  }
  if (listed.standing == Standing::valid && !in_lineage(name, claims)) {
    listed.standing = Standing::superseded;
    listed.reason = "a later start of the run went on from an earlier step";
  }
  return listed;
}

}  // namespace

const char* to_string(Standing standing) {
  constexpr const char* names[] = {"valid", "damaged", "uncommitted", "superseded"};
  return names[static_cast<int>(standing)];
}

Opened open_checkpoint(const fs::path& folder) {
  const auto name = parse_set_name(folder.filename().string());
  if (!name) refuse(folder, "is not named as a checkpoint is, step-00000020.g1");
  const std::string text = read_plain(folder / kManifest, kMostManifestBytes);
  if (read_plain(folder / kCommit, 4096) != commit_text(*name, text))
    refuse(folder / kCommit, fmt::format("does not fit {} (hash {})", kManifest, hash_text(hash64(text))));
  Opened opened{parse_manifest(text, (folder / kManifest).string()), hash64(text)};
  if (opened.manifest.name != *name)
    refuse(folder / kManifest, "belongs to " + to_string(opened.manifest.name));
  check_files(folder, opened.manifest);
  return opened;
}

void verify_contents(const fs::path& folder, const Manifest& manifest) {
  for (const ManifestFile& file : manifest.files) {
    ShardReader reader(folder / file.name, file, manifest.chunk_bytes);
    for (int64_t chunk = 0; chunk < reader.chunks(); ++chunk) reader.chunk(chunk);
  }
}

std::vector<Listed> list_checkpoints(const fs::path& root, const Log& log) {
  std::vector<Listed> found;
  if (!fs::is_directory(root)) return found;
  const std::vector<Claim> claims = read_claims(root, log);
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    const auto name = parse_set_name(entry.path().filename().string());
    if (!name) continue;
    Listed listed = look_at(entry.path(), *name, claims);
    // Not one that an earlier start was about to remove when this one took the run over.
    if (listed.standing == Standing::valid || fs::exists(fs::symlink_status(listed.folder)))
      found.push_back(std::move(listed));
  }
  std::ranges::sort(found, std::greater<>{}, &Listed::name);
  return found;
}

void retain(Storage& storage, const fs::path& root, const SetName& verified, int64_t keep, const Log& log) {
  const std::vector<Listed> all = list_checkpoints(root, log);
  const bool is_there = std::ranges::any_of(all, [&](const Listed& listed) {
    return listed.name == verified && listed.standing == Standing::valid;
  });
  if (!is_there) return;
  remove_cut_off(storage, root, verified.generation);
  int64_t kept = 0;
  for (const Listed& listed : all) {
    if (listed.standing == Standing::valid && kept < keep) {
      ++kept;
      continue;
    }
    const bool is_needless = listed.standing == Standing::uncommitted
                                 ? listed.name.generation <= verified.generation
                                 : kept >= keep && listed.name < verified;
    if (!is_needless) continue;
    if (newest_generation(root, log) > verified.generation) return;
    remove_checkpoint(storage, listed.folder);
  }
  storage.sync_folder(root);
}

}  // namespace muster::checkpoint
