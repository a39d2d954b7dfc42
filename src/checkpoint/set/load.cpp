#include "checkpoint/set/load.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/set/shard.h"
#include "checkpoint/tensor_io.h"

namespace muster::checkpoint {
namespace {

[[noreturn]] void mismatch(const std::string& what) {
  throw WorldError(WorldError::Kind::mismatch, what);
}

// A piece of a file and the bytes of memory that it fills.
struct Delivery {
  const ManifestPiece* piece;
  at::Tensor bytes;
};

const ManifestPiece& piece_for(const StateTensor& tensor, const ManifestTensor& saved) {
  const std::string dtype(to_string(to_dtype(tensor.local.scalar_type())));
  if (dtype != to_string(saved.dtype) || tensor.shape != saved.shape)
    mismatch(fmt::format("{} was saved as {} {}, and this run holds {} {}", tensor.name,
                         to_string(saved.dtype), Json(saved.shape).dump(), dtype, Json(tensor.shape).dump()));
  for (const ManifestPiece& piece : saved.pieces)
    if (piece.start == tensor.start && at::IntArrayRef(piece.shape) == tensor.local.sizes()) return piece;
  mismatch(fmt::format("{} was saved in other pieces: resharding is not built yet", tensor.name));
}

// Every name of one side must have its twin on the other (CASES B021).
void check_names(const Manifest& manifest, const State& state) {
  std::map<std::string, int> sides;
  for (const ManifestTensor& tensor : manifest.tensors) sides[tensor.name] |= 1;
  for (const StateTensor& tensor : state.tensors) sides[tensor.name] |= 2;
  for (const auto& [name, value] : manifest.counters) sides["counter " + name] |= 1;
  for (const StateCounter& counter : state.counters) sides["counter " + counter.name] |= 2;
  for (const auto& [name, side] : sides) {
    if (side == 1) mismatch(fmt::format("the checkpoint holds {}, and this run has no place for it", name));
    if (side == 2) mismatch(fmt::format("this run needs {}, and the checkpoint does not hold it", name));
  }
}

// What each file of the checkpoint gives this rank.
std::vector<std::vector<Delivery>> deliveries(const Manifest& manifest, const State& state) {
  std::map<std::string, const ManifestTensor*> by_name;
  for (const ManifestTensor& tensor : manifest.tensors) by_name[tensor.name] = &tensor;
  std::vector<std::vector<Delivery>> by_file(manifest.files.size());
  for (const StateTensor& tensor : state.tensors) {
    const ManifestPiece& piece = piece_for(tensor, *by_name.at(tensor.name));
    if (piece.bytes == 0) continue;
    by_file[static_cast<size_t>(piece.file)].push_back(
        {&piece, tensor.local.detach().view({-1}).view(at::kByte)});
  }
  for (auto& file : by_file)
    std::ranges::sort(file, {}, [](const Delivery& delivery) { return delivery.piece->offset; });
  return by_file;
}

// Copies what of `chunk`, which starts at byte `first` of its file, belongs to the pieces. They are sorted
// and do not overlap, so that those which end before the chunk are passed over once.
void deliver(const std::vector<Delivery>& pieces, size_t& passed, int64_t first, std::string_view chunk) {
  const int64_t last = first + static_cast<int64_t>(chunk.size());
  while (passed < pieces.size() && pieces[passed].piece->offset + pieces[passed].piece->bytes <= first)
    ++passed;
  for (size_t at = passed; at < pieces.size() && pieces[at].piece->offset < last; ++at) {
    const ManifestPiece& piece = *pieces[at].piece;
    const int64_t from = std::max(first, piece.offset), to = std::min(last, piece.offset + piece.bytes);
    const at::Tensor source =
        at::from_blob(const_cast<char*>(chunk.data()) + (from - first), {to - from}, at::kByte);
    pieces[at].bytes.narrow(0, from - piece.offset, to - from).copy_(source);
  }
}

// What one rank tells of its try.
struct Try {
  enum class Result { loaded, damaged, mismatched };
  Result result = Result::loaded;
  std::string why;
  std::optional<Opened> opened;
};

// `ranks_agree(id)` is called once, whatever this rank found.
template <class Agree>
Try load_here(const fs::path& folder, State& state, const Expected& expected, const Agree& ranks_agree) {
  Try mine;
  const auto attempt = [&](const auto& body) {
    if (mine.result != Try::Result::loaded) return;
    try {
      body();
    } catch (const WorldError& error) {
      mine.why = error.what();
      mine.result =
          error.kind() == WorldError::Kind::mismatch ? Try::Result::mismatched : Try::Result::damaged;
    } catch (const std::exception& error) {
      mine.why = error.what();
      mine.result = Try::Result::damaged;
    }
  };
  attempt([&] { mine.opened = open_checkpoint(folder); });
  const bool agreed = ranks_agree(mine.opened ? mine.opened->id : 0);
  attempt([&] {
    if (!agreed)
      throw WorldError(WorldError::Kind::data, folder.string() + ": not all ranks see the same manifest");
    check_same_run(mine.opened->manifest, expected);
    load_one(folder, mine.opened->manifest, state);
  });
  return mine;
}

// The candidates of rank 0, newest first; what cannot be one is named in its log.
std::vector<std::string> candidates_in(const fs::path& root, const Log& log) {
  std::vector<std::string> names;
  for (const Listed& listed : list_checkpoints(root, log)) {
    if (listed.standing == Standing::valid)
      names.push_back(to_string(listed.name));
    else
      log.warning("checkpoint {} is not used, {}: {}", to_string(listed.name), to_string(listed.standing),
                  listed.reason);
  }
  return names;
}

// The newest step that a commit was ever made for, by the folders' names.
int64_t newest_committed(const fs::path& root, const Log& log) {
  for (const Listed& listed : list_checkpoints(root, log))
    if (listed.standing == Standing::valid || listed.standing == Standing::damaged) return listed.name.step;
  return 0;
}

}  // namespace

void check_same_run(const Manifest& manifest, const Expected& expected) {
  std::string differences;
  const auto differ = [&](const std::string& key, const std::string& saved, const std::string& now) {
    if (saved != now)
      differences += fmt::format("{}{} was {} and is {}", differences.empty() ? "" : "; ", key, saved, now);
  };
  const auto value = [](const auto& job, const std::string& key) {
    const auto found = job.find(key);
    return found == job.end() ? std::string("absent") : found->second;
  };
  for (const auto& [key, saved] : manifest.job) differ(key, saved, value(expected.job, key));
  for (const auto& [key, now] : expected.job)
    if (!manifest.job.contains(key)) differ(key, "absent", now);
  differ("the number of ranks", std::to_string(manifest.world), std::to_string(expected.world));
  if (!differences.empty())
    mismatch(fmt::format("{} is of another run: {}", to_string(manifest.name), differences));
}

void load_one(const fs::path& folder, const Manifest& manifest, State& state) {
  const c10::NoGradGuard no_grad;
  check_names(manifest, state);
  const auto by_file = deliveries(manifest, state);
  for (size_t file = 0; file < by_file.size(); ++file) {
    size_t passed = 0;
    read_verified(
        folder / manifest.files[file].name, manifest.files[file], manifest.chunk_bytes,
        [&](int64_t first, std::string_view chunk) { deliver(by_file[file], passed, first, chunk); });
  }
  for (const StateCounter& counter : state.counters) counter.set(manifest.counters.at(counter.name));
}

std::optional<Manifest> load_newest(Assembly& assembly, const fs::path& root, State& state,
                                    const Expected& expected, int64_t rank, const Log& log) {
  std::vector<std::string> own;
  int64_t newest = 0;
  if (rank == 0) {
    own = candidates_in(root, log);
    newest = newest_committed(root, Log("", LogLevel::error));
  }
  // Rank 0 names them; the others have nothing to add.
  std::vector<std::string> names;
  for (const std::string& text : assembly.gather(Json(own).dump()))
    for (const Json& name : Json::parse(text)) names.push_back(name);
  newest = assembly.maximum(newest);

  for (const std::string& name : names) {
    const Try mine = load_here(root / name, state, expected, [&](uint64_t id) {
      const auto number = static_cast<int64_t>(id >> 1);
      return assembly.minimum(number) == assembly.maximum(number);
    });
    const Json note = {{"rank", rank}, {"result", mine.result}, {"why", mine.why}};
    std::string why;
    bool is_mismatch = false;
    for (const std::string& text : assembly.gather(note.dump())) {
      const Json theirs = Json::parse(text);
      is_mismatch |= theirs["result"] == Json(Try::Result::mismatched);
      if (why.empty()) why = theirs["why"];
    }
    if (is_mismatch) mismatch(why);
    if (why.empty()) {
      const int64_t lost = newest - mine.opened->manifest.name.step;
      if (lost > 0 && rank == 0)
        log.warning("going on from step {}: {} steps are lost and run again", mine.opened->manifest.name.step,
                    lost);
      return mine.opened->manifest;
    }
    if (rank == 0) log.warning("checkpoint {} is not used, damaged: {}", name, why);
  }
  if (newest > 0)
    throw WorldError(
        WorldError::Kind::data,
        fmt::format("no checkpoint of {} is whole; to start again, name a new --run folder", root.string()));
  return std::nullopt;
}

}  // namespace muster::checkpoint
