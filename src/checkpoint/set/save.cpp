#include "checkpoint/set/save.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "checkpoint/set/catalog.h"
#include "checkpoint/set/shard.h"

namespace muster::checkpoint {
namespace {

// A vote that failed: the text is the first rank's reason.
struct Abandoned {
  std::string why;
};

// Manifest, header and folders beside the tensors themselves.
constexpr int64_t kRoomBesides = int64_t{1} << 20;

Json to_json(const WrittenShard& shard) {
  Manifest part;
  part.files = {shard.file};
  part.tensors = shard.tensors;
  return to_json(part);
}

}  // namespace

struct Saver::Attempt {
  Manifest manifest;
  std::string nonce;
  fs::path folder;  // where it stands now
  fs::path target;
  std::string commit_text;
};

SaveOutcome Saver::save(const State& state, Manifest facts) {
  Attempt attempt{std::move(facts), "", {}, {}, ""};
  attempt.manifest.name.generation = claim_.generation;
  attempt.manifest.incarnation = claim_.incarnation;
  attempt.manifest.parent = claim_.parent;
  attempt.target = root_ / to_string(attempt.manifest.name);
  SaveOutcome outcome{attempt.manifest.name, 0, ""};
  try {
    const std::vector<Json> opened = vote([&] {
      if (leads()) make_folder(attempt, state);
      return Json{{"bytes", bytes_to_write(state, rank_)}, {"nonce", attempt.nonce}};
    });
    for (const Json& told : opened)
      if (!told["nonce"].get<std::string>().empty()) attempt.nonce = told["nonce"];
    attempt.folder = root_ / fmt::format(".tmp-{}.{}", to_string(attempt.manifest.name), attempt.nonce);
    const std::vector<Json> written = vote([&] { return write_own(attempt, state); });
    for (const Json& told : written)
      if (!told.is_null()) outcome.bytes += told["bytes"].get<int64_t>();
    vote([&] {
      if (leads()) write_manifest(attempt, state, written);
      return Json();
    });
    vote([&] {
      if (leads()) commit(attempt);
      return Json();
    });
  } catch (const Abandoned& abandoned) {
    outcome.failure = abandoned.why;
    if (leads()) discard(attempt);
  }
  return outcome;
}

// Runs `body`, and tells all ranks what came of it. Peers that are lost are no vote: that stops the run.
std::vector<Json> Saver::vote(const std::function<Json()>& body) {
  Json mine = {{"rank", rank_}, {"error", nullptr}, {"fenced", false}, {"told", nullptr}};
  try {
    mine["told"] = body();
  } catch (const WorldError& error) {
    mine["error"] = error.what();
    mine["fenced"] = error.kind() == WorldError::Kind::fenced;
  } catch (const std::exception& error) {
    mine["error"] = error.what();
  }
  std::vector<Json> told;
  std::string failure;
  for (const std::string& text : assembly_.gather(mine.dump())) {
    const Json theirs = Json::parse(text);
    if (theirs["fenced"]) throw WorldError(WorldError::Kind::fenced, theirs["error"].get<std::string>());
    if (!theirs["error"].is_null() && failure.empty())
      failure = fmt::format("rank {}: {}", theirs["rank"].get<int64_t>(), theirs["error"].get<std::string>());
    told.push_back(theirs["told"]);
  }
  if (!failure.empty()) throw Abandoned{failure};
  return told;
}

void Saver::make_folder(Attempt& attempt, const State& state) {
  int64_t bytes = kRoomBesides;
  for (const StateTensor& tensor : state.tensors) bytes += static_cast<int64_t>(tensor.local.nbytes());
  const int64_t room = storage_.free_bytes(root_);
  if (room < bytes)
    throw WorldError(WorldError::Kind::disk,
                     fmt::format("{}: {} are free, and the save takes {}", root_.string(), format_bytes(room),
                                 format_bytes(bytes)));
  attempt.nonce = new_nonce();
  attempt.folder = root_ / fmt::format(".tmp-{}.{}", to_string(attempt.manifest.name), attempt.nonce);
  storage_.make_folder(attempt.folder);
  storage_.sync_folder(root_);
}

Json Saver::write_own(const Attempt& attempt, const State& state) {
  const bool owns =
      std::ranges::any_of(state.tensors, [&](const StateTensor& t) { return t.writer == rank_; });
  if (!owns) return {};
  const std::string name = fmt::format("r{}.{}.st", rank_, attempt.nonce);
  const WrittenShard shard = write_shard(storage_, attempt.folder, name, state, rank_);
  storage_.sync_folder(attempt.folder);
  return to_json(shard);
}

void Saver::write_manifest(Attempt& attempt, const State& state, const std::vector<Json>& told) {
  Manifest& manifest = attempt.manifest;
  for (const Json& part : told)
    if (!part.is_null()) add_part(manifest, read_manifest(part.dump(), "what a rank wrote"));
  std::set<std::string_view> written;
  for (const ManifestTensor& tensor : manifest.tensors) written.insert(tensor.name);
  for (const StateTensor& tensor : state.tensors)
    if (!written.contains(tensor.name))
      throw WorldError(WorldError::Kind::mismatch, fmt::format("no rank wrote {}", tensor.name));
  for (const StateCounter& counter : state.counters) manifest.counters[counter.name] = counter.get();
  check_tiling(manifest, "this save");
  const std::string text = checkpoint::to_json(manifest).dump(1) + "\n";
  OutputFile file(storage_, attempt.folder / kManifest);
  file.write_all(text);
  file.finish();
  storage_.sync_folder(attempt.folder);
  attempt.commit_text = checkpoint::commit_text(manifest.name, text);
}

void Saver::commit(Attempt& attempt) {
  const std::vector<Claim> claims = read_claims(root_, log_);
  if (!claims.empty() && claims.back().generation > claim_.generation)
    throw WorldError(WorldError::Kind::fenced,
                     fmt::format("generation {} of {} was taken over by generation {}: this process stops",
                                 claim_.generation, root_.string(), claims.back().generation));
  storage_.rename(attempt.folder, attempt.target);
  attempt.folder = attempt.target;
  storage_.sync_folder(root_);
  publish(storage_, attempt.folder, kCommit, "." + std::string(kCommit) + "." + attempt.nonce,
          attempt.commit_text);
  open_checkpoint(attempt.folder);
  try {
    retain(storage_, root_, attempt.manifest.name, keep_, log_);
  } catch (const std::exception& error) {
    log_.warning("older checkpoints stay for now: {}", error.what());
  }
}

void Saver::discard(const Attempt& attempt) {
  std::error_code ignored;
  if (attempt.folder.empty() || !fs::exists(attempt.folder, ignored)) return;
  try {
    remove_checkpoint(storage_, attempt.folder);
  } catch (const std::exception& error) {
    log_.warning("what the save left stays for now: {}", error.what());
  }
}

}  // namespace muster::checkpoint
