#include "checkpoint/set/load.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/set/set_reader.h"
#include "checkpoint/tensor_io.h"

namespace muster::checkpoint {
namespace {

[[noreturn]] void mismatch(const std::string& what) {
  throw WorldError(WorldError::Kind::mismatch, what);
}

void check_alike(const StateTensor& tensor, const ManifestTensor& saved) {
  const std::string dtype(to_string(to_dtype(tensor.local.scalar_type())));
  if (dtype != to_string(saved.dtype) || tensor.piece.shape() != saved.shape)
    mismatch(fmt::format("{} was saved as {} {}, and this run holds {} {}", tensor.name,
                         to_string(saved.dtype), Json(saved.shape).dump(), dtype,
                         Json(tensor.piece.shape()).dump()));
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

// What of the checkpoint this rank holds.
std::vector<SetReader::Order> orders_of(const Manifest& manifest, const State& state) {
  std::map<std::string_view, const ManifestTensor*> by_name;
  for (const ManifestTensor& tensor : manifest.tensors) by_name[tensor.name] = &tensor;
  std::vector<SetReader::Order> orders;
  for (const StateTensor& tensor : state.tensors) {
    const ManifestTensor& saved = *by_name.at(tensor.name);
    check_alike(tensor, saved);
    orders.push_back({&saved, {tensor.local, tensor.piece}});
  }
  return orders;
}

// The place of the state fails: that says nothing of the checkpoint.
void fill(const StateTensor& tensor, const at::Tensor& elements) {
  try {
    tensor.write(elements);
  } catch (const WorldError& error) {
    throw WorldError(WorldError::Kind::device, error.what());
  }
}

// What is in memory in one go through the files; the rest a tensor at a time.
void read_all(SetReader& reader, std::vector<SetReader::Order> orders, const State& state) {
  std::vector<SetReader::Order> resident;
  for (size_t at = 0; at < orders.size(); ++at)
    if (!state.tensors[at].write) resident.push_back(orders[at]);
  reader.read(resident);
  for (size_t at = 0; at < orders.size(); ++at) {
    const StateTensor& tensor = state.tensors[at];
    if (!tensor.write || tensor.local.numel() == 0) continue;
    const at::Tensor elements = at::empty(tensor.local.sizes(), tensor.local.options());
    reader.read({{orders[at].tensor, {elements, tensor.piece}}});
    fill(tensor, elements);
  }
}

// What one rank tells of its try.
struct Try {
  enum class Result { loaded, damaged, refused };  // refused: an older one would be, too
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
      const bool is_its_own =
          error.kind() == WorldError::Kind::disk || error.kind() == WorldError::Kind::data;
      mine.result = is_its_own ? Try::Result::damaged : Try::Result::refused;
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
    contract_of(mine.opened->manifest, expected);
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

std::string content_text(const ManifestData& data) {
  return fmt::format("{} bytes, xxh3 {}", data.bytes, hash_text(data.hash));
}

// Names may differ, contents not. Where one side has no fingerprints there is nothing to compare.
std::vector<Problem> compare_data(const Manifest& manifest, const Expected& expected) {
  std::vector<Problem> problems;
  if (manifest.data.empty() || expected.data.empty()) return problems;
  const char* remedy = "give the data of the run, or start a new run from the checkpoint with model.weights";
  if (manifest.data.size() != expected.data.size())
    return {{"data.path", std::to_string(expected.data.size()) + " files",
             fmt::format("the run was saved with {}", manifest.data.size()), remedy}};
  for (size_t at = 0; at < manifest.data.size(); ++at) {
    const ManifestData &saved = manifest.data[at], &now = expected.data[at];
    if (saved.bytes != now.bytes || saved.hash != now.hash)
      problems.push_back({now.field, now.path,
                          fmt::format("holds other data ({}) than the run that saved {} had ({})",
                                      content_text(now), to_string(manifest.name), content_text(saved)),
                          remedy});
  }
  return problems;
}

}  // namespace

Differences compare(const Manifest& manifest, const Expected& expected) {
  Differences found;
  const auto differ = [](std::string& where, const std::string& key, const std::string& saved,
                         const std::string& now) {
    if (saved != now)
      where += fmt::format("{}{} was {} and is {}", where.empty() ? "" : "; ", key, saved, now);
  };
  std::set<std::string> keys;
  for (const auto* job : {&manifest.job, &expected.job})
    for (const auto& [key, value] : *job) keys.insert(key);
  const auto value = [](const auto& job, const std::string& key) {
    const auto at = job.find(key);
    return at == job.end() ? std::string("absent") : at->second;
  };
  for (const std::string& key : keys)
    differ(expected.layout_keys.contains(key) ? found.layout : found.job, key, value(manifest.job, key),
           value(expected.job, key));
  differ(found.layout, "the number of ranks", std::to_string(manifest.world), std::to_string(expected.world));
  if (!manifest.transport.empty() && !expected.transport.empty())
    differ(found.layout, "what the ranks talk through", manifest.transport, expected.transport);
  found.data = compare_data(manifest, expected);
  return found;
}

const char* contract_of(const Manifest& manifest, const Expected& expected) {
  const Differences differences = compare(manifest, expected);
  const std::string name = to_string(manifest.name);
  if (!differences.job.empty()) mismatch(fmt::format("{} is of another run: {}", name, differences.job));
  if (!differences.data.empty()) mismatch(to_string(differences.data.front()));
  if (differences.layout.empty()) return kReplay;
  if (expected.contract != kCoverage)
    mismatch(fmt::format("{} is of another layout, and checkpoint.contract is \"{}\": {}", name,
                         expected.contract, differences.layout));
  return kCoverage;
}

void load_one(const fs::path& folder, const Manifest& manifest, State& state) {
  check_names(manifest, state);
  SetReader reader(folder, manifest, 1);
  read_all(reader, orders_of(manifest, state), state);
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
      is_mismatch |= theirs["result"] == Json(Try::Result::refused);
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
