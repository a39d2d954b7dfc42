// The optimizer's states in a file: the bits of those in memory, and errors that name where.
#include "train/offload/state_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "checkpoint/testing.h"
#include "nn/rig.h"
#include "nn/test_support.h"
#include "train/optim/optimizer.h"

namespace muster::train {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Kind = AsyncFile::Kind;

const Clock kClock;
constexpr Kind kKinds[] = {Kind::best, Kind::threads};

class Installed : public ::testing::Environment {
  void SetUp() override { device::install_ledgers(); }
};
const auto* const kInstalled = ::testing::AddGlobalTestEnvironment(new Installed);

// What it threw.
template <class Body>
WorldError error_of(Body&& body) {
  try {
    body();
  } catch (const WorldError& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return WorldError(WorldError::Kind::fenced, "");
}

// 4096 bytes, where direct transfers can start.
struct Page {
  alignas(AsyncFile::kAlign) char bytes[AsyncFile::kAlign];
};

TEST(AsyncFile, GivesBackWhatItTook) {
  for (const Kind kind : kKinds) {
    const checkpoint::TestFolder folder;
    AsyncFile file(folder.path(), "scratch", 3 * AsyncFile::kAlign, kind);
    const auto out = std::make_unique<Page>(), in = std::make_unique<Page>();
    std::ranges::fill(out->bytes, 'x');
    std::ranges::fill(in->bytes, 'y');
    Transfer write{Transfer::Kind::write, out->bytes, AsyncFile::kAlign, AsyncFile::kAlign};
    Transfer read{Transfer::Kind::read, in->bytes, AsyncFile::kAlign, 0};
    file.begin(write);
    file.begin(read);
    file.wait(read);
    EXPECT_EQ(std::string_view(in->bytes, sizeof in->bytes), std::string(sizeof in->bytes, '\0'));
    file.wait(write);
    read.offset = AsyncFile::kAlign;
    file.begin(read);
    file.wait(read);
    EXPECT_EQ(std::string_view(in->bytes, sizeof in->bytes), std::string(sizeof in->bytes, 'x'));
    file.wait(read);  // once more is nothing
    EXPECT_EQ(file.traffic().read_bytes, 2 * AsyncFile::kAlign);
    EXPECT_EQ(file.traffic().written_bytes, AsyncFile::kAlign);
    EXPECT_GT(file.traffic().busy_seconds, 0);
    EXPECT_THAT(file.how(), HasSubstr(kind == Kind::best ? "io_uring" : "threads (io_uring: not asked for)"));
    EXPECT_TRUE(fs::is_empty(folder.path())) << "nothing is left of it, however the process ends";
  }
}

TEST(AsyncFile, AnErrorNamesFilePlaceAndCause) {
  for (const Kind kind : kKinds) {
    const checkpoint::TestFolder folder;
    AsyncFile file(folder.path(), "scratch", 2 * AsyncFile::kAlign, kind);
    ASSERT_EQ(::ftruncate(file.fd(), AsyncFile::kAlign), 0);
    const auto page = std::make_unique<Page>();
    Transfer read{Transfer::Kind::read, page->bytes, AsyncFile::kAlign, AsyncFile::kAlign};
    file.begin(read);
    const WorldError error = error_of([&] { file.wait(read); });
    EXPECT_EQ(error.kind(), WorldError::Kind::disk);
    EXPECT_EQ(error.what(),
              (folder / "scratch").string() + ": read of 4096 bytes at 4096: the file ends there");
  }
}

TEST(AsyncFile, AFolderWithoutRoomIsRefusedWithBytesNeededAndFound) {
  const checkpoint::TestFolder folder;
  const int64_t free = room_for_files(folder.path()).free_bytes;
  EXPECT_GT(free, 0);
  const WorldError error = error_of([&] { AsyncFile(folder.path(), "scratch", free + (int64_t{1} << 40)); });
  EXPECT_EQ(error.kind(), WorldError::Kind::disk);
  EXPECT_THAT(error.what(), HasSubstr("are free: No space left on device"));
  EXPECT_THAT(room_for_files(folder / "none").problem, HasSubstr("No such file"));
}

// ---- the states' cycle ----

StateFile::Options in(const checkpoint::TestFolder& folder, Kind kind = Kind::best) {
  return {folder.path(), 5, AsyncFile::kAlign, kind};
}

// Adds 1 to every element of part k, and k to every second state.
void update(StateFile& file, nn::Executor& run, size_t parts) {
  for (size_t number = 0; number < parts; ++number) {
    const std::vector<at::Tensor> states = file.take(run, number);
    states[0].add_(1);
    states[1].add_(static_cast<double>(number));
    file.put(run);
  }
}

// As many parts as the ring has buffers, fewer and more.
TEST(StateFile, EachPartComesBackEachUpdateAsItWasLeft) {
  for (const Kind kind : kKinds)
    for (const size_t parts : {1u, 2u, 3u, 4u, 7u}) {
      const checkpoint::TestFolder folder;
      nn::Executor run(at::kCPU, at::kFloat, kClock);
      StateFile file(in(folder, kind), at::kFloat);
      const int64_t elements = static_cast<int64_t>(parts) * 1024 - 3;
      file.add(elements, 2);
      file.open(run);
      EXPECT_EQ(file.parts_of(0).size(), parts);
      for (int step = 0; step < 5; ++step) update(file, run, parts);
      const at::Tensor first = at::empty({elements}), second = at::empty({elements - 1000});
      file.read(0, 0, 0, first);
      file.read(0, 1, 1000, second);
      EXPECT_TRUE(at::equal(first, at::full({elements}, 5.0)));
      const at::Tensor part_of = at::arange(1000, elements).div(1024, "floor");
      EXPECT_TRUE(at::equal(second, 5 * part_of.to(at::kFloat))) << parts;
      if (parts > 3) {
        EXPECT_GE(file.figures().written_bytes, 5 * file.file_bytes());
        EXPECT_GE(file.figures().read_bytes, 5 * file.file_bytes());
      }
    }
}

// What a checkpoint brings, in pieces that meet parts anywhere, is what the next update finds.
TEST(StateFile, IsFilledBetweenUpdates) {
  const checkpoint::TestFolder folder;
  nn::Executor run(at::kCPU, at::kFloat, kClock);
  StateFile file(in(folder), at::kFloat);
  file.add(5000, 2);
  file.open(run);
  update(file, run, 5);
  const at::Tensor wanted = at::arange(5000, at::kFloat), got = at::empty({5000});
  for (const auto& [first, end] : {std::pair(0, 700), {700, 3000}, {3000, 5000}})
    file.write(0, 0, first, wanted.slice(0, first, end));
  file.read(0, 0, 0, got);
  EXPECT_TRUE(at::equal(got, wanted));
  update(file, run, 5);
  file.read(0, 0, 0, got);
  EXPECT_TRUE(at::equal(got, wanted + 1));
}

TEST(StateFile, WhatIsNotWhatWasWrittenIsNamed) {
  for (const Kind kind : kKinds) {
    const checkpoint::TestFolder folder;
    nn::Executor run(at::kCPU, at::kFloat, kClock);
    StateFile file(in(folder, kind), at::kFloat);
    file.add(9 * 1024, 2);
    file.open(run);
    update(file, run, 9);
    const auto page = std::make_unique<Page>();
    ASSERT_EQ(::pread(file.fd(), page->bytes, sizeof page->bytes, file.part(4).offset + 4096), 4096);
    ++page->bytes[17];
    ASSERT_EQ(::pwrite(file.fd(), page->bytes, sizeof page->bytes, file.part(4).offset + 4096), 4096);
    const WorldError error = error_of([&] { update(file, run, 9); });
    EXPECT_EQ(error.kind(), WorldError::Kind::data);
    EXPECT_THAT(error.what(), StartsWith("rank 5: " + folder.path().string()));
    EXPECT_THAT(error.what(), HasSubstr(": bytes 32768 to 40960 have hash "));
  }
}

// In host memory there is the ring and no more, on meta alike.
TEST(StateFile, TakesThreeBuffersOfHostMemory) {
  const checkpoint::TestFolder folder;
  for (const at::DeviceType type : {at::kCPU, at::kMeta}) {
    nn::Executor run(type, at::kFloat, kClock);
    const device::Ledger& books = device::ledger(type);
    const int64_t host = books.live(device::Category::host_optimizer), all = books.live();
    StateFile file(in(folder), at::kFloat);
    file.add(100'000, 2);
    file.add(10, 1);
    file.open(run);
    EXPECT_EQ(books.live(device::Category::host_optimizer) - host, 3 * (2 * 4096 + 4096));
    EXPECT_EQ(books.live(), all);
    EXPECT_EQ(file.file_bytes(), 2 * 98 * 4096 + 4096);
  }
}

// ---- the update ----

struct Case {
  const char* name;
  const char* rule;
  at::ScalarType values, states;
};

// Larger than what one thread takes of an operator, and no multiple of anything.
spec::ModelSpec model() {
  spec::ModelSpec model = nn::small_model(spec::Family::llama);
  model.vocab_size = 3011;
  return model;
}

struct Alone {
  Alone(const Case& c, const spec::OptimizerConfig& config, std::optional<StateFile::Options> file)
      : groups(comm::without_peers(nn::one_rank(), 0)),
        table(model()),
        mesh(nn::one_rank()),
        run(at::kCPU, c.values, kClock),
        parameters(table, mesh, run, 1),
        optimizer(
            config, parameters, run, {c.states, nn::Category::host_optimizer, std::move(file)},
            WholeMatrices(parameters, mesh, groups.on(spec::Axis::data), groups.on(spec::Axis::tensor))) {
    for (const spec::ParameterRow& row : table.rows()) parameters.value(row).copy_(noise(row, 1));
  }
  static at::Tensor noise(const spec::ParameterRow& row, uint64_t seed) {
    return nn::normal(row.shape, at::kDouble, seed);
  }
  void step(uint64_t number) {
    for (const spec::ParameterRow& row : table.rows())
      parameters.gradient(row).copy_(noise(row, 100 + number));
    optimizer.step(run, 0.01, 3.7);
  }
  at::Tensor elements(const Optimizer::State& state) const {
    if (!state.read) return state.local;
    const at::Tensor elements = at::empty(state.local.sizes(), state.local.options());
    state.read(elements);
    return elements;
  }

  comm::Groups groups;
  spec::ParameterTable table;
  spec::Mesh mesh;
  nn::Executor run;
  nn::ParameterStore parameters;
  Optimizer optimizer;
};

void expect_equal(const Alone& one, const Alone& other) {
  for (const spec::ParameterRow& row : one.table.rows()) {
    const at::Tensor value = one.parameters.value(row),
                     same = other.parameters.value(other.table.row(row.name));
    EXPECT_TRUE(at::equal(value, same)) << row.name;
    const auto states = one.optimizer.states_of(row, value), others = other.optimizer.states_of(row, same);
    ASSERT_EQ(states.size(), others.size());
    for (size_t at = 0; at < states.size(); ++at) {
      EXPECT_TRUE(others[at].read);
      EXPECT_TRUE(at::equal(one.elements(states[at]), other.elements(others[at])))
          << row.name << states[at].name;
    }
  }
}

class UpdateInAFile : public ::testing::TestWithParam<Case> {};

TEST_P(UpdateInAFile, HasTheBitsOfOneInMemory) {
  const Case& c = GetParam();
  spec::OptimizerConfig config;
  config.name = c.rule;
  config.weight_decay = 0.3;
  config.momentum = 0.9;
  const nn::Threads threads(2);
  for (const Kind kind : kKinds) {
    const checkpoint::TestFolder folder;
    StateFile::Options options = in(folder, kind);
    options.part_bytes = 16 * AsyncFile::kAlign;
    Alone memory(c, config, std::nullopt), file(c, config, options);
    for (uint64_t step = 1; step <= 3; ++step) memory.step(step), file.step(step);
    expect_equal(memory, file);
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, UpdateInAFile,
                         ::testing::Values(Case{"adamw", "adamw", at::kFloat, at::kFloat},
                                           Case{"adamw_double", "adamw", at::kDouble, at::kDouble},
                                           Case{"adamw_bfloat16", "adamw", at::kFloat, at::kBFloat16},
                                           Case{"adamw_of_bfloat16", "adamw", at::kBFloat16, at::kFloat},
                                           Case{"sgd", "sgd", at::kFloat, at::kFloat},
                                           Case{"muon", "muon", at::kFloat, at::kFloat}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster::train
