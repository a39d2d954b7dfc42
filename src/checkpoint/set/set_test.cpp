// A checkpoint set on one rank: written whole or not at all, through every failure of every call; read with
// distrust.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <random>

#include "checkpoint/set/faulty_storage.h"
#include "checkpoint/set/load.h"
#include "checkpoint/set/save.h"
#include "checkpoint/set/shard.h"
#include "checkpoint/testing.h"

namespace muster::checkpoint {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

const Log kQuiet("", LogLevel::error, -1);

// A state whose values say which step they are of.
struct Values {
  at::Tensor matrix = at::zeros({5, 3}), vector = at::zeros({7}), scalar = at::zeros({}, at::kDouble),
             none = at::zeros({0, 4});
  int64_t updates = 0;

  State state() {
    State s;
    s.tensors = {{"parameters/matrix", spec::Piece({5, 3}), matrix, 0},
                 {"parameters/vector", spec::Piece({7}), vector, 0},
                 {"optimizer.first/scalar", spec::Piece({}), scalar, 0},
                 {"parameters/none", spec::Piece({0, 4}), none, 0}};
    s.counters = {{"optimizer.updates", [this] { return updates; }, [this](int64_t n) { updates = n; }}};
    return s;
  }
  void set(int64_t step) {
    matrix.copy_(at::arange(15, at::kFloat).view({5, 3}).add(100 * step));
    vector.copy_(at::arange(7, at::kFloat).mul(step));
    scalar.fill_(static_cast<double>(step) / 3);
    updates = step;
  }
  bool are_of(int64_t step) {
    Values other;
    other.set(step);
    return at::equal(matrix, other.matrix) && at::equal(vector, other.vector) &&
           at::equal(scalar, other.scalar) && updates == step;
  }
};

// One rank's run: it takes its generation, loads, decides its parent before the first save, and saves.
class OneRank {
 public:
  OneRank(Storage& storage, const fs::path& root, int64_t keep = 2)
      : storage_(storage),
        root_(root),
        keep_(keep),
        mesh_({1, 1, 1, 1, 1},
              {spec::Axis::tensor, spec::Axis::context, spec::Axis::data, spec::Axis::pipeline}),
        groups_(comm::without_peers(mesh_, 0)),
        assembly_(groups_, at::kCPU) {}

  void take() { claim_ = take_generation(storage_, root_, kQuiet); }
  // Goes on from `parent`, or from what was loaded.
  void claim(std::optional<SetName> parent = std::nullopt) {
    if (!claim_) take();
    decide_parent(storage_, root_, *claim_, parent ? parent : parent_, kQuiet);
    saver_.emplace(storage_, root_, *claim_, 0, 1, keep_, kQuiet);
  }
  SaveOutcome save(int64_t step) {
    if (!saver_) claim();
    Values values;
    values.set(step);
    Manifest facts;
    facts.name.step = step;
    facts.job = {{"training.seed", "1"}};
    const SaveOutcome outcome = saver_->save(assembly_, values.state(), facts);
    if (outcome.is_durable()) saver_->tidy(outcome.name);
    return outcome;
  }
  // The step of the newest valid checkpoint, all of whose values are of that step; 0: none.
  int64_t load() {
    Values values;
    State state = values.state();
    const auto loaded = load_newest(
        assembly_, root_, state, {.job = {{"training.seed", "1"}}, .layout_keys = {}, .world = 1}, 0, kQuiet);
    if (!loaded) return 0;
    EXPECT_TRUE(values.are_of(loaded->name.step)) << to_string(loaded->name);
    parent_ = loaded->name;
    return loaded->name.step;
  }

 private:
  Storage& storage_;
  fs::path root_;
  int64_t keep_;
  spec::Mesh mesh_;
  comm::Groups groups_;
  Assembly assembly_;
  std::optional<SetName> parent_;
  std::optional<Claim> claim_;
  std::optional<Saver> saver_;
};

std::vector<std::string> names_in(const fs::path& root) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(root))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// A run that has saved step 1, and goes on through a storage that fails.
struct Failing {
  TestFolder folder;
  PosixStorage sound;
  FaultyStorage storage{folder / "graves"};
  OneRank run{storage, folder / "c", 1};
  SaveOutcome outcome;
  // Saves step 2, whose call `at` fails.
  Failing(int64_t at, Fault fault) {
    fs::create_directory(folder / "graves");
    OneRank(sound, folder / "c").save(1);
    EXPECT_EQ(run.load(), 1);
    run.claim();
    storage.fail_at(storage.calls() + at, fault);
    outcome = run.save(2);
  }
  // The next start loads what it must and saves step 3, and nothing else is left.
  void expect_next_start_works() {
    OneRank next(sound, folder / "c", 1);
    const int64_t loaded = next.load();
    if (outcome.is_durable())
      EXPECT_EQ(loaded, 2);
    else
      EXPECT_THAT(loaded, AnyOf(1, 2)) << outcome.failure;
    EXPECT_EQ(next.save(3).failure, "");
    EXPECT_EQ(next.load(), 3);
    EXPECT_EQ(names_in(folder / "c"), (std::vector<std::string>{"claims", "step-00000003.g3"}));
  }
};

TEST(CheckpointSet, SavesAndLoads) {
  const TestFolder folder;
  PosixStorage storage;
  OneRank run(storage, folder / "c");
  EXPECT_EQ(run.load(), 0);
  for (int64_t step : {10, 20, 30}) EXPECT_EQ(run.save(step).failure, "");
  EXPECT_EQ(run.load(), 30);
  EXPECT_EQ(names_in(folder / "c"),
            (std::vector<std::string>{"claims", "step-00000020.g1", "step-00000030.g1"}));
  const Opened opened = open_checkpoint(folder / "c/step-00000030.g1");
  EXPECT_EQ(opened.manifest.counters.at("optimizer.updates"), 30);
  // The file is one that any reader of safetensors takes.
  const SafetensorsFile file(folder / ("c/step-00000030.g1/" + opened.manifest.files[0].name));
  EXPECT_EQ(file.tensors().size(), 4u);
}

// Each call fails once, in turn: the save is given up, nothing is half there, the next one works.
TEST(CheckpointSet, EveryFailingCallGivesTheSaveUp) {
  for (Fault fault : {Fault::eio, Fault::enospc, Fault::short_write, Fault::crash}) {
    int64_t given_up = 0, at = 1;
    for (bool fired = true; fired; ++at) {
      SCOPED_TRACE(at);
      Failing failing(at, fault);
      fired = failing.storage.fired();
      given_up += !failing.outcome.is_durable();
      if (fault != Fault::crash) {
        EXPECT_EQ(failing.run.load(), failing.outcome.is_durable() ? 2 : 1);
      }
      failing.expect_next_start_works();
    }
    EXPECT_GT(at, 25);
    EXPECT_EQ(given_up, fault == Fault::short_write ? 0 : 25);
  }
}

// Power fails at each call, with every suffix of the names that were not synced undone, and the contents that
// were not synced gone or not: what was acknowledged is there, and what is there is whole (CASES B028).
TEST(CheckpointSet, B028_S26_PowerLossNeverTakesWhatWasAcknowledged) {
  int64_t states = 0;
  bool more_calls = true;
  for (int64_t at = 1; more_calls; ++at) {
    bool more_names = true;
    for (size_t undone = 0; more_names; ++undone) {
      for (bool contents : {false, true}) {
        SCOPED_TRACE(fmt::format("call {}, {} names undone", at, undone));
        Failing failing(at, Fault::crash);
        more_calls = failing.storage.fired();
        more_names = undone < failing.storage.unsynced_names();
        failing.storage.cut_power(undone, contents);
        failing.expect_next_start_works();
        ++states;
      }
    }
  }
  EXPECT_GT(states, 100);
}

struct Saved {
  TestFolder folder;
  PosixStorage storage;
  OneRank run{storage, folder / "c"};
  fs::path newest = folder / "c/step-00000002.g1";
  Saved() {
    run.save(1);
    run.save(2);
  }
  fs::path shard() const { return newest / open_checkpoint(newest).manifest.files[0].name; }
  // What a reader says of the newest one.
  std::string complaint() const {
    return message_of([&] { verify_contents(newest, open_checkpoint(newest).manifest); });
  }
};

TEST(CheckpointSet, S19_EveryFlippedBitIsFoundAndThePreviousOneIsLoaded) {
  Saved saved;
  std::mt19937 random(7);
  const std::string shard = saved.shard().filename().string();
  for (const std::string& name : {shard, std::string(kManifest), std::string(kCommit)}) {
    const fs::path path = saved.newest / name;
    const std::string good = read_text(path);
    for (int flip = 0; flip < 334; ++flip) {
      std::string bad = good;
      const size_t bit = random() % (8 * good.size());
      bad[bit / 8] ^= static_cast<char>(1 << bit % 8);
      write_file(path, bad);
      const std::string complaint = saved.complaint();
      EXPECT_THAT(complaint, AnyOf(HasSubstr(name), HasSubstr(kCommit))) << "bit " << bit;
      if (flip % 25 == 0) {
        EXPECT_EQ(saved.run.load(), 1);
      }
    }
    write_file(path, good);
  }
  EXPECT_EQ(saved.complaint(), "");
  EXPECT_EQ(saved.run.load(), 2);
}

TEST(CheckpointSet, S20_S42_WhatIsNotAsWrittenIsRefusedByName) {
  struct Harm {
    const char* said;
    std::function<void(const fs::path& folder, const fs::path& shard)> harm;
  };
  const Harm harms[] = {
      {"bytes where the manifest has", [](auto&, auto& shard) { fs::resize_file(shard, 100); }},
      {"bytes where the manifest has", [](auto&, auto& s) { fs::resize_file(s, fs::file_size(s) + 1); }},
      {"is missing", [](auto&, auto& shard) { fs::remove(shard); }},
      {"is missing", [](auto& folder, auto&) { fs::remove(folder / kManifest); }},
      {"is no file of this checkpoint", [](auto& folder, auto&) { write_file(folder / "more", "x"); }},
      {"is a link",
       [](auto& folder, auto& shard) {
         fs::rename(shard, folder.parent_path() / "elsewhere");
         fs::create_symlink("../elsewhere", shard);
       }},
      {"is a link",
       [](auto& folder, auto&) {
         fs::rename(folder / kManifest, folder.parent_path() / "elsewhere");
         fs::create_symlink("../elsewhere", folder / kManifest);
       }},
      {"is not a regular file",
       [](auto&, auto& shard) {
         fs::remove(shard);
         fs::create_directory(shard);
       }},
      {"is not a regular file",
       [](auto&, auto& shard) {
         fs::remove(shard);
         ::mkfifo(shard.c_str(), 0600);
       }},
      {"does not fit", [](auto& folder, auto&) { write_file(folder / kManifest, "{}"); }},
  };
  for (const Harm& harm : harms) {
    Saved saved;
    harm.harm(saved.newest, saved.shard());
    EXPECT_THAT(saved.complaint(), HasSubstr(harm.said));
    EXPECT_EQ(saved.run.load(), 1) << harm.said;
  }
}

TEST(CheckpointSet, S20_AShardOfAnotherStepIsRefused) {
  Saved saved;
  const fs::path older = saved.folder / "c/step-00000001.g1";
  const fs::path other = older / open_checkpoint(older).manifest.files[0].name;
  fs::copy_file(other, saved.shard(), fs::copy_options::overwrite_existing);
  EXPECT_THAT(saved.complaint(), HasSubstr("chunk 0"));
  EXPECT_EQ(saved.run.load(), 1);
}

TEST(CheckpointSet, WhereAllAreDamagedNothingStartsAgain) {
  Saved saved;
  fs::resize_file(saved.shard(), 1);
  write_file(saved.folder / "c/step-00000001.g1/COMMIT", "");
  EXPECT_THAT(message_of([&] { saved.run.load(); }), HasSubstr("no checkpoint of"));
}

TEST(CheckpointSet, AnUncommittedOneDoesNotExist) {
  Saved saved;
  fs::remove(saved.newest / kCommit);
  EXPECT_EQ(saved.run.load(), 1);
}

// CASES B021.
TEST(CheckpointSet, B021_EveryNameHasItsTwin) {
  Saved saved;
  const Manifest manifest = open_checkpoint(saved.newest).manifest;
  Values values;
  State state = values.state();
  state.tensors.pop_back();
  EXPECT_THAT(message_of([&] { load_one(saved.newest, manifest, state); }),
              HasSubstr("the checkpoint holds parameters/none"));
  state = values.state();
  state.tensors.push_back({"optimizer.second/vector", spec::Piece({7}), at::zeros({7}), 0});
  EXPECT_THAT(message_of([&] { load_one(saved.newest, manifest, state); }),
              HasSubstr("this run needs optimizer.second/vector"));
  state = values.state();
  state.counters.clear();
  EXPECT_THAT(message_of([&] { load_one(saved.newest, manifest, state); }), HasSubstr("optimizer.updates"));
  state = values.state();
  state.tensors[1].local = at::zeros({7}, at::kDouble);
  EXPECT_THAT(message_of([&] { load_one(saved.newest, manifest, state); }), HasSubstr("F64"));
}

// RELIABILITY scenario 48: an earlier start that is late removes nothing that its successor may read.
TEST(CheckpointSet, S48_NothingGoesOnceALaterStartHasClaimed) {
  const TestFolder folder;
  PosixStorage storage;
  OneRank first(storage, folder / "c", /*keep=*/2), second(storage, folder / "c", 2);
  for (int64_t step : {10, 20}) first.save(step);
  second.claim(SetName{10, 1});
  retain(storage, folder / "c", SetName{20, 1}, /*keep=*/1, kQuiet);
  EXPECT_EQ(second.load(), 10);
  second.save(30);
  retain(storage, folder / "c", SetName{30, 2}, 1, kQuiet);
  EXPECT_EQ(names_in(folder / "c"), (std::vector<std::string>{"claims", "step-00000030.g2"}));
}

// A run whose earlier start is still saving when a later one goes on from it; each does its part between any
// two calls of the other. Only the newest is kept.
struct TwoStarts {
  TestFolder folder;
  FaultyStorage earlier_storage{folder / "graves"}, later_storage{folder / "more graves"};
  OneRank earlier{earlier_storage, folder / "c", 1}, later{later_storage, folder / "c", 1};
  int64_t loaded = 0;
  TwoStarts() {
    fs::create_directory(folder / "graves");
    fs::create_directory(folder / "more graves");
    for (int64_t step : {10, 20}) earlier.save(step);
  }
  void earlier_saves() {
    try {
      earlier.save(30);
    } catch (const WorldError& error) {
      EXPECT_EQ(error.kind(), WorldError::Kind::fenced) << error.what();
    }
  }
  void later_goes_on() {
    later.take();
    loaded = later.load();
    later.claim();
  }
  // What the later start went on from is there, and is what the next one goes on from.
  void expect_parent_is_kept() {
    PosixStorage storage;
    OneRank next(storage, folder / "c", 1);
    next.take();
    EXPECT_THAT(loaded, AnyOf(20, 30));
    EXPECT_EQ(next.load(), loaded);
  }
};

// RELIABILITY scenario 48: a start that goes on from a run finds all that it chose, and keeps it, wherever
// the earlier one is in its save and in its removal of what that makes needless.
TEST(CheckpointSet, S48_ALaterStartComesAtAnyCallOfASave) {
  int64_t from_the_last = 0;
  for (int64_t at = 1;; ++at) {
    SCOPED_TRACE(at);
    TwoStarts run;
    run.earlier_storage.call_at(run.earlier_storage.calls() + at, [&] { run.later_goes_on(); });
    run.earlier_saves();
    if (!run.earlier_storage.fired()) break;
    from_the_last += run.loaded == 30;
    run.expect_parent_is_kept();
  }
  EXPECT_GT(from_the_last, 0);
}

// The same with the earlier start's save at any call of the later one, and between its steps.
TEST(CheckpointSet, S48_AnEarlierStartSavesAtAnyCallOfALaterOne) {
  for (int64_t at = 1;; ++at) {
    SCOPED_TRACE(at);
    TwoStarts run;
    run.later_storage.call_at(at, [&] { run.earlier_saves(); });
    run.later_goes_on();
    if (!run.later_storage.fired()) {
      EXPECT_GT(at, 10);
      break;
    }
    run.expect_parent_is_kept();
  }
}

// Killed before its parent is decided, a start limits nothing and is in nobody's way.
TEST(CheckpointSet, S48_AStartThatDiesBeforeItDecidesLosesNothing) {
  TwoStarts run;
  run.later.take();
  EXPECT_EQ(run.later.load(), 20);
  PosixStorage storage;
  OneRank next(storage, run.folder / "c", 1);
  next.take();
  EXPECT_EQ(next.load(), 20);
  next.claim();
  EXPECT_EQ(next.save(21).name, (SetName{21, 3}));
  // The one that was only slow is told when it decides.
  EXPECT_THAT(message_of([&] { run.later.claim(); }), HasSubstr("was taken over by generation 3"));
  EXPECT_EQ(next.load(), 21);
}

// A start whose claim fails at any call, with the power lost at that moment or without.
TEST(CheckpointSet, S48_AClaimThatFailsLosesNothing) {
  for (const Fault fault : {Fault::eio, Fault::enospc, Fault::crash})
    for (int64_t at = 1;; ++at) {
      SCOPED_TRACE(at);
      TwoStarts run;
      run.later_storage.fail_at(at, fault);
      const std::string message = message_of([&] { run.later_goes_on(); });
      EXPECT_EQ(!message.empty(), run.later_storage.fired()) << message;
      if (!run.later_storage.fired()) break;
      if (fault == Fault::crash) run.later_storage.cut_power(run.later_storage.unsynced_names(), true);
      PosixStorage storage;
      OneRank next(storage, run.folder / "c", 1);
      next.take();
      EXPECT_EQ(next.load(), 20);
      next.claim();
      EXPECT_EQ(next.save(21).failure, "");
      EXPECT_EQ(next.load(), 21);
    }
}

TEST(CheckpointSet, ALaterClaimFencesTheEarlierStart) {
  const TestFolder folder;
  PosixStorage storage;
  OneRank first(storage, folder / "c");
  EXPECT_EQ(first.save(10).failure, "");
  EXPECT_EQ(first.save(20).failure, "");
  OneRank second(storage, folder / "c");
  second.claim(SetName{10, 1});
  try {
    first.save(30);
    FAIL() << "it was taken over";
  } catch (const WorldError& error) {
    EXPECT_EQ(error.kind(), WorldError::Kind::fenced);
    EXPECT_THAT(error.what(), HasSubstr("generation 2"));
  }
  EXPECT_EQ(second.load(), 10) << "step 20 of generation 1 is of no line that goes on";
  EXPECT_EQ(second.save(15).failure, "");
  EXPECT_EQ(second.load(), 15);
}

TEST(CheckpointSet, B024_AnOldOneIsLoadedByName) {
  Saved saved;
  Values values;
  State state = values.state();
  const fs::path older = saved.folder / "c/step-00000001.g1";
  const Manifest manifest = open_checkpoint(older).manifest;
  load_one(older, manifest, state);
  EXPECT_TRUE(values.are_of(1));
  EXPECT_EQ(manifest.name.step, 1);
}

TEST(CheckpointSet, AManifestFromOutsideIsChecked) {
  Saved saved;
  const std::string text = read_text(saved.newest / kManifest);
  const auto said = [&](const std::string& pointer, const Json& value) {
    Json json = Json::parse(text);
    json[Json::json_pointer(pointer)] = value;
    return message_of([&] { parse_manifest(json.dump(), "m"); });
  };
  EXPECT_EQ(message_of([&] { parse_manifest(text, "m"); }), "");
  EXPECT_THAT(said("/files/0/name", "../../etc/passwd"), HasSubstr("not allowed"));
  EXPECT_THAT(said("/files/0/name", ".hidden"), HasSubstr("not allowed"));
  EXPECT_THAT(said("/files/0/bytes", -1), HasSubstr("is no count"));
  EXPECT_THAT(said("/files/0/bytes", int64_t{1} << 60), HasSubstr("hashes for"));
  EXPECT_THAT(said("/tensors/1/pieces/0/offset", INT64_MAX), HasSubstr("ends after its file"));
  EXPECT_THAT(said("/tensors/1/pieces/0/file", 7), HasSubstr("no such file"));
  EXPECT_THAT(said("/tensors/1/shape/0", int64_t{1} << 62),
              AnyOf(HasSubstr("leave"), HasSubstr("64"), HasSubstr("63")));
  EXPECT_THAT(said("/tensors/1/pieces", Json::array()), HasSubstr("leave"));
  EXPECT_THAT(said("/chunk_bytes", 0), HasSubstr("chunk_bytes"));
  EXPECT_THAT(said("/schema", 1), HasSubstr("schema 1"));
  EXPECT_THAT(said("/world", "two"), HasSubstr("no count"));
}

// CASES B030: pieces must add up to their tensor.
TEST(CheckpointSet, B030_PiecesTileTheirTensor) {
  Manifest manifest;
  const auto rows = [](int64_t first, int64_t size) { return spec::Piece({4, 2}, {0, {{0, first, size}}}); };
  manifest.tensors = {{"t", DType::f32, {4, 2}, {{0, 0, rows(0, 2)}, {0, 16, rows(2, 2)}}}};
  EXPECT_NO_THROW(check_tiling(manifest, "m"));
  manifest.tensors[0].pieces[1].piece = rows(1, 2);
  EXPECT_THAT(message_of([&] { check_tiling(manifest, "m"); }), HasSubstr("the pieces of t overlap"));
  manifest.tensors[0].pieces.pop_back();
  EXPECT_THAT(message_of([&] { check_tiling(manifest, "m"); }),
              HasSubstr("the pieces of t leave out indices 2 to 4 of dim 0"));
}

// One rank of `tensor` x `shards`: its columns of a matrix (its indices of a vector), and of those a flat
// range.
State synthetic(int64_t rank, int64_t tensor, int64_t shards, bool filled) {
  State state;
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{5, 3}, {7}, {1}, {0, 4}, {6, 4}, {40, 70}}) {
    const int dim = static_cast<int>(shape.size()) - 1;
    const int64_t extent = shape[static_cast<size_t>(dim)], at = rank % tensor;
    const int64_t first = extent * at / tensor, size = extent * (at + 1) / tensor - first;
    const spec::Piece part(shape, {dim, {{0, first, size}}});
    const int64_t shard = rank / tensor, all = part.elements();
    const spec::Piece piece = part.narrow(all * shard / shards, all * (shard + 1) / shards);
    const at::Tensor local = at::full({piece.elements()}, -1, at::kFloat);
    if (filled)
      for (int64_t i = 0; i < piece.elements(); ++i)
        local.data_ptr<float>()[i] = static_cast<float>(piece.run_from(i).global);
    state.tensors.push_back({"t" + Json(shape).dump(), piece, local, rank});
  }
  return state;
}

// CASES B030: 0, 1, 2, ... over shapes that do not divide, saved by any ranks and loaded by any others,
// bitwise.
TEST(CheckpointSet, B030_AnySplitLoadsUnderAnyOther) {
  constexpr std::pair<int64_t, int64_t> layouts[] = {{1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 8},
                                                     {2, 1}, {2, 2}, {3, 1}, {4, 2}, {2, 4}};
  for (const auto& [tensor, shards] : layouts) {
    const TestFolder folder;
    PosixStorage storage;
    Manifest manifest;
    for (int64_t rank = 0; rank < tensor * shards; ++rank) {
      const WrittenShard shard = write_shard(storage, folder.path(), fmt::format("r{}.x.st", rank),
                                             synthetic(rank, tensor, shards, true), rank);
      Manifest part;
      part.files = {shard.file};
      part.tensors = shard.tensors;
      add_part(manifest, read_manifest(to_json(part).dump(), "part"));
    }
    check_tiling(manifest, "m");
    for (const auto& [other_tensor, other_shards] : layouts)
      for (int64_t rank = 0; rank < other_tensor * other_shards; ++rank) {
        State state = synthetic(rank, other_tensor, other_shards, false);
        load_one(folder.path(), manifest, state);
        const State expected = synthetic(rank, other_tensor, other_shards, true);
        for (size_t at = 0; at < state.tensors.size(); ++at)
          EXPECT_TRUE(at::equal(state.tensors[at].local, expected.tensors[at].local))
              << state.tensors[at].name << " " << tensor << "x" << shards << " -> " << other_tensor << "x"
              << other_shards << " rank " << rank;
      }
  }
}

TEST(CheckpointSet, RanksThatDisagreeOnATensorAreRefused) {
  const auto part = [](const char* file, DType dtype, int64_t rows) {
    Manifest m;
    m.files = {{file, 0, {}}};
    m.tensors = {{"t", dtype, {rows, 2}, {}}};
    return m;
  };
  Manifest manifest;
  add_part(manifest, part("r0.x.st", DType::f32, 4));
  EXPECT_THAT(message_of([&] { add_part(manifest, part("r1.x.st", DType::f32, 5)); }), HasSubstr("r1.x.st"));
  EXPECT_THAT(message_of([&] { add_part(manifest, part("r2.x.st", DType::f64, 4)); }), HasSubstr("F64"));
}

TEST(CheckpointSet, ChunksAreHashedOneByOne) {
  const TestFolder folder;
  PosixStorage storage;
  at::Tensor large = at::arange(3 * kChunkBytes / 8 + 5, at::kLong);
  State state;
  state.tensors = {{"large", spec::Piece({large.numel()}), large, 0}};
  const WrittenShard shard = write_shard(storage, folder.path(), "r0.x.st", state, 0);
  EXPECT_EQ(shard.file.chunks.size(), 4u);
  Manifest manifest;
  manifest.files = {shard.file};
  manifest.tensors = shard.tensors;
  at::Tensor back = at::zeros_like(large);
  state.tensors[0].local = back;
  load_one(folder.path(), manifest, state);
  EXPECT_TRUE(at::equal(large, back));
}

// What direct writes cannot take, odd sizes and odd memory, goes through the page cache, in its place.
TEST(CheckpointSet, AnyBytesMayFollowWholeBlocks) {
  const TestFolder folder;
  PosixStorage storage;
  std::string text;
  for (int at = 0; text.size() < 5 * Storage::kBlock; ++at) text += std::to_string(at);
  const size_t block = Storage::kBlock;
  std::vector<char> memory(2 * block);
  char* aligned = memory.data() + (block - reinterpret_cast<uintptr_t>(memory.data()) % block) % block;
  std::ranges::copy(text.substr(0, block), aligned);
  OutputFile file(storage, folder / "f", Storage::Cache::bypass);
  file.write_all({aligned, block});
  file.write_all(std::string_view(text).substr(block, 3));
  file.write_all(std::string_view(text).substr(block + 3));
  file.finish();
  EXPECT_EQ(read_text(folder / "f"), text);
}

}  // namespace
}  // namespace muster::checkpoint
