#include "checkpoint/set/save.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/hash.h"
#include "base/units.h"
#include "checkpoint/set/catalog.h"
#include "checkpoint/set/note.h"
#include "checkpoint/set/shard.h"

namespace muster::checkpoint {
namespace {

// Manifest, header and folders beside the tensors themselves.
constexpr int64_t kRoomBesides = int64_t{1} << 20;

}  // namespace

int64_t whole_bytes(const State& state) {
  int64_t bytes = 0;
  for (const StateTensor& tensor : state.tensors) {
    int64_t elements = 1;
    for (int64_t size : tensor.piece.shape()) elements *= size;
    bytes += elements * static_cast<int64_t>(tensor.local.element_size());
  }
  return bytes;
}

std::shared_ptr<Save> Saver::begin(Manifest facts) {
  auto save = std::make_shared<Save>();
  save->manifest = std::move(facts);
  save->manifest.name.generation = claim_.generation;
  save->manifest.incarnation = claim_.incarnation;
  save->manifest.parent = claim_.parent;
  save->nonce = hash_text(hash64(claim_.incarnation, static_cast<uint64_t>(++begun_)));
  save->folder = root_ / fmt::format(".tmp-{}.{}", to_string(save->manifest.name), save->nonce);
  return save;
}

void Saver::make_folder(Save& save, int64_t bytes) {
  const int64_t room = storage_.free_bytes(root_);
  if (room < bytes + kRoomBesides)
    throw WorldError(WorldError::Kind::disk,
                     fmt::format("{}: {} are free, and the save takes {}", root_.string(), format_bytes(room),
                                 format_bytes(bytes)));
  storage_.make_folder(save.folder);
  storage_.sync_folder(root_);
}

void Saver::write_own(const Save& save, const State& state) {
  using namespace std::chrono_literals;
  // Asked for by its name: a folder's listing may be an old one on a network file system.
  for (std::error_code none; !fs::exists(save.folder, none); std::this_thread::sleep_for(1ms))
    if (save.given_up) throw WorldError(WorldError::Kind::disk, "the save was given up elsewhere");
  Note note;
  const bool owns = std::ranges::any_of(state.tensors, [&](auto& tensor) { return tensor.writer == rank_; });
  if (owns) {
    const std::string name = fmt::format("r{}.{}.st", rank_, save.nonce);
    const WrittenShard shard = write_shard(storage_, save.folder, name, state, rank_);
    note = {{shard.file}, shard.tensors};
  }
  write_note(storage_, save.folder, rank_, note);
  storage_.sync_folder(save.folder);
}

int64_t Saver::commit(Save& save, const State& state) {
  write_manifest(save, state);
  const std::string text = checkpoint::to_json(save.manifest).dump(1) + "\n";
  OutputFile file(storage_, save.folder / kManifest);
  file.write_all(text);
  file.finish();
  for (int64_t rank = 0; rank < world_; ++rank) storage_.unlink(save.folder / note_name(rank));
  storage_.sync_folder(save.folder);

  check_not_taken_over(root_, claim_.generation, log_);
  const SetName name = save.manifest.name;
  const fs::path target = root_ / to_string(name);
  storage_.rename(save.folder, target);
  save.folder = target;
  storage_.sync_folder(root_);
  publish(storage_, target, kCommit, "." + std::string(kCommit) + "." + save.nonce, commit_text(name, text));
  open_checkpoint(target);
  return save.manifest.bytes();
}

void Saver::tidy(const SetName& newest) {
  try {
    retain(storage_, root_, newest, keep_, log_);
  } catch (const std::exception& error) {
    log_.warning("older checkpoints stay for now: {}", error.what());
  }
}

void Saver::write_manifest(Save& save, const State& state) {
  gather_notes(save);
  Manifest& manifest = save.manifest;
  for (const StateTensor& tensor : state.tensors)
    if (std::ranges::find(manifest.tensors, tensor.name, &ManifestTensor::name) == manifest.tensors.end())
      throw WorldError(WorldError::Kind::mismatch, fmt::format("no rank wrote {}", tensor.name));
  for (const StateCounter& counter : state.counters) manifest.counters[counter.name] = counter.get();
  check_tiling(manifest, "this save");
}

// The pieces of all ranks under one list of names.
void Saver::gather_notes(Save& save) {
  for (int64_t rank = 0; rank < world_; ++rank) {
    Note note = read_note(save.folder, rank);
    if (note.files.empty()) continue;
    Manifest part;
    part.files = std::move(note.files);
    part.tensors = std::move(note.tensors);
    add_part(save.manifest, std::move(part));
  }
}

void Saver::discard(const Save& save) {
  std::error_code ignored;
  if (!fs::exists(save.folder, ignored)) return;
  try {
    remove_checkpoint(storage_, save.folder);
  } catch (const std::exception& error) {
    log_.warning("what the save left stays for now: {}", error.what());
  }
}

SaveOutcome Saver::save(Assembly& assembly, const State& state, Manifest facts) {
  const std::shared_ptr<Save> save = begin(std::move(facts));
  SaveOutcome outcome{save->manifest.name, 0, ""};
  const auto all_do = [&](const std::function<void()>& body) {
    Failure own;
    try {
      if (outcome.is_durable()) body();
    } catch (const std::exception&) {
      own = Failure::of_current_exception();
    }
    if (outcome.is_durable()) outcome.failure = first_failure(assembly, rank_, own);
  };
  all_do([&] {
    if (leads()) make_folder(*save, whole_bytes(state));
  });
  all_do([&] { write_own(*save, state); });
  all_do([&] {
    if (leads()) outcome.bytes = commit(*save, state);
  });
  if (!outcome.is_durable() && leads()) discard(*save);
  return outcome;
}

Failure Failure::of_current_exception() {
  try {
    throw;
  } catch (const WorldError& error) {
    return {error.what(), error.kind() == WorldError::Kind::fenced};
  } catch (const std::exception& error) {
    return {error.what(), false};
  }
}

std::string first_failure(Assembly& assembly, int64_t rank, const Failure& own) {
  std::string first;
  const Json mine = {{"rank", rank}, {"text", own.text}, {"fenced", own.is_fenced}};
  for (const std::string& text : assembly.gather(mine.dump())) {
    const Json theirs = Json::parse(text);
    if (theirs["fenced"]) throw WorldError(WorldError::Kind::fenced, theirs["text"].get<std::string>());
    if (first.empty() && !theirs["text"].get<std::string>().empty())
      first = fmt::format("rank {}: {}", theirs["rank"].get<int64_t>(), theirs["text"].get<std::string>());
  }
  return first;
}

}  // namespace muster::checkpoint
