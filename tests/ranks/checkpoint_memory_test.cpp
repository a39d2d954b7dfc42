// Memory of a load: a state that four processes wrote, columns of matrices and ranges of those, is loaded by
// three others, each of which holds a third. No process ever has more than its shard and a bound. 256 MB of
// state and 32 MB in CI; 2 GB and 256 MB with MUSTER_SOAK=1.
#include <ATen/ATen.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "checkpoint/hugging_face.h"
#include "checkpoint/set/load.h"
#include "checkpoint/set/save.h"
#include "comm/communicator.h"
#include "device/process_memory.h"
#include "tests/program.h"

namespace muster::checkpoint {
namespace {

using namespace std::chrono_literals;
using test::Folder;
using test::is_soak;

const Log kQuiet("", LogLevel::error);

// From now on the highest resident size counts anew.
void forget_peak() {
  const int file = ::open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0 || ::write(file, "5", 1) != 1) throw std::runtime_error("the peak cannot be reset");
  ::close(file);
}

// Calls body(rank) in so many processes; what one throws, or expects in vain, fails the test.
template <class Body>
void as_processes(int64_t size, const Body& body) {
  std::vector<pid_t> children;
  for (int64_t rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        body(rank);
      } catch (const std::exception& error) {
        fmt::print(stderr, "rank {}: {}\n", rank, error.what());
        ::_exit(1);
      }
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

constexpr int64_t kMatrices = 8, kColumns = 4096;

// Rank `rank` of `tensor` x `shards`: its columns, and of those a range.
spec::Piece piece_of(int64_t rows, int64_t rank, int64_t tensor, int64_t shards) {
  const int64_t width = kColumns / tensor;
  const spec::Piece part({rows, kColumns}, {1, {{0, rank % tensor * width, width}}});
  const int64_t shard = rank / tensor, all = part.elements();
  return part.narrow(all * shard / shards, all * (shard + 1) / shards);
}

State state_of(int64_t rows, int64_t rank, int64_t tensor, int64_t shards) {
  State state;
  for (int64_t number = 0; number < kMatrices; ++number) {
    const spec::Piece piece = piece_of(rows, rank, tensor, shards);
    state.tensors.push_back(
        {fmt::format("parameters/{}", number), piece, at::empty({piece.elements()}, at::kInt), rank});
  }
  return state;
}

// Calls body(values of a run, the first of them) for all runs of a rank's part.
template <class Body>
void for_runs(const State& state, const Body& body) {
  int32_t number = 0;
  for (const StateTensor& tensor : state.tensors) {
    int32_t* values = tensor.local.data_ptr<int32_t>();
    for (int64_t local = 0; local < tensor.piece.elements();) {
      const spec::FlatRun run = tensor.piece.run_from(local);
      body(std::span(values + local, static_cast<size_t>(run.count)),
           static_cast<int32_t>(run.global) * 31 + number);
      local += run.count;
    }
    ++number;
  }
}

void fill(const State& state) {
  for_runs(state, [](std::span<int32_t> values, int32_t first) {
    for (int32_t& value : values) value = std::exchange(first, first + 31);
  });
}

int64_t wrong_values(const State& state) {
  int64_t wrong = 0;
  for_runs(state, [&](std::span<int32_t> values, int32_t first) {
    for (int32_t value : values) wrong += value != std::exchange(first, first + 31);
  });
  return wrong;
}

// One process of a data axis.
struct Member {
  spec::Mesh mesh;
  comm::Groups groups;
  Assembly assembly{groups, at::kCPU};
  Member(const fs::path& store, int64_t rank, int64_t size)
      : mesh({1, 1, 1, size, 1},
             {spec::Axis::tensor, spec::Axis::context, spec::Axis::data, spec::Axis::pipeline}),
        groups(comm::connect(mesh, world(store, rank, size), "cpu", 60s, {60s})) {}
  static comm::World world(const fs::path& store, int64_t rank, int64_t size) {
    comm::World world;
    world.rank = world.local_rank = rank;
    world.size = world.local_size = size;
    world.store_file = store.string();
    return world;
  }
};

TEST(CheckpointMemory, ALoadTakesTheShardAndABound) {
  const Folder folder;
  const int64_t rows = (is_soak() ? int64_t{2000} : int64_t{256}) * 1'000'000 / (kMatrices * kColumns * 4);
  const int64_t bound = is_soak() ? 256'000'000 : 32'000'000;
  PosixStorage storage;
  const Claim claim = take_generation(storage, folder / "c", kQuiet);
  as_processes(4, [&](int64_t rank) {
    Member member(folder / "store4", rank, 4);
    const State state = state_of(rows, rank, 2, 2);
    fill(state);
    Saver saver(storage, folder / "c", claim, rank, 4, 1, kQuiet);
    Manifest facts;
    facts.name.step = 1;
    facts.world = 4;
    EXPECT_EQ(saver.save(member.assembly, state, facts).failure, "");
  });
  as_processes(3, [&](int64_t rank) {
    Member member(folder / "store3", rank, 3);
    const int64_t before = device::resident_bytes();
    forget_peak();
    State state = state_of(rows, rank, 1, 3);
    int64_t shard = 0;
    for (const StateTensor& tensor : state.tensors) shard += static_cast<int64_t>(tensor.local.nbytes());
    Expected expected;
    expected.world = 3;
    expected.contract = kCoverage;
    ASSERT_TRUE(load_newest(member.assembly, folder / "c", state, expected, rank, kQuiet));
    const int64_t grown = device::peak_resident_bytes() - before;
    fmt::print("rank {}: a shard of {} bytes, {} more at the peak of the load\n", rank, shard, grown - shard);
    EXPECT_GE(grown, shard) << "the shard is in memory";
    EXPECT_LE(grown, shard + bound);
    EXPECT_EQ(wrong_values(state), 0);
  });
}

// So that the program's own pages, which come in when they are first used, are in memory.
void read_a_corner(const TensorSet& weights) {
  const StoredTensor& tensor = weights.tensors().front();
  weights.read(tensor, {at::empty({4}, at::kInt), spec::Piece(tensor.shape, {1, {{0, 7, 1}}}).narrow(0, 4)});
}

// Published weights: a rank takes what it owns, and a bound, however the tensors are cut.
TEST(CheckpointMemory, AnImportTakesWhatTheRankOwnsAndABound) {
  const Folder folder;
  constexpr int64_t kRows = 4096;  // 64 MB a matrix
  as_processes(1, [&](int64_t) {
    std::vector<TensorEntry> entries;
    for (int64_t number = 0; number < kMatrices / 2; ++number)
      entries.push_back({fmt::format("parameters/{}", number), DType::i32, {kRows, kColumns}, 0, 0});
    SafetensorsWriter writer(folder / "weights.safetensors", entries, {});
    State whole = state_of(kRows, 0, 1, 1);
    fill(whole);
    for (int64_t number = 0; number < kMatrices / 2; ++number)
      write_tensor(writer, whole.tensors[static_cast<size_t>(number)].local, at::kInt);
    writer.finish();
  });
  for (const auto& [tensor, shards] : {std::pair<int64_t, int64_t>{1, 4}, {4, 1}, {2, 2}})
    as_processes(1, [&, tensor = tensor, shards = shards](int64_t) {
      const auto weights = open_weights(folder / "weights.safetensors");
      State state = state_of(kRows, 3, tensor, shards);
      state.tensors.erase(state.tensors.begin() + kMatrices / 2, state.tensors.end());
      read_a_corner(*weights);
      const int64_t before = device::resident_bytes();
      forget_peak();
      int64_t owned = 0;
      std::vector<Wanted> wanted;
      for (const StateTensor& one : state.tensors) {
        wanted.push_back({weights->find(one.name), {one.local, one.piece}});
        owned += static_cast<int64_t>(one.local.nbytes());
      }
      weights->read(wanted);
      const int64_t grown = device::peak_resident_bytes() - before;
      fmt::print("{} x {}: {} bytes owned, {} more at the peak\n", tensor, shards, owned, grown - owned);
      EXPECT_GE(grown, owned);
      EXPECT_LE(grown, owned + 2 * kStagingBytes);
      EXPECT_EQ(wrong_values(state), 0);
    });
}

}  // namespace
}  // namespace muster::checkpoint
