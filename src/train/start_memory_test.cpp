// CASES B042: what a rank takes before its first step. With all of its state sharded nothing is ever whole
// but a layer, and building, loading weights and loading a checkpoint stay below what a step takes.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "checkpoint/set/save.h"
#include "comm/testing.h"
#include "device/ledger.h"
#include "train/state.h"

namespace muster::train {
namespace {

using namespace std::chrono_literals;

// Before the first tensor of any test of this room.
[[maybe_unused]] const bool kLedgers = (device::install_ledgers(), true);
const Log kQuiet("", LogLevel::error);

// 9.9 million parameters over two ranks.
constexpr const char* kJob =
    "[model]\nfamily = \"llama\"\nvocab_size = 512\nhidden_size = 256\nnum_hidden_layers = 12\n"
    "num_attention_heads = 4\nnum_key_value_heads = 4\nintermediate_size = 704\n"
    "max_position_embeddings = 32\n[data]\npath = \"ids.bin\"\nformat = \"uint16\"\nsequence_length = 16\n"
    "[training]\nglobal_batch_size = 2\nmicro_batch_size = 1\nsteps = 2\nthreads = 1\n"
    "[layout]\nzero = 3\n[checkpoint]\nevery = 1\n";
constexpr int64_t kRanks = 2, kHidden = 256, kFfn = 704;
constexpr int64_t kLargestLayer = 4 * (4 * kHidden * kHidden + 3 * kHidden * kFfn + 2 * kHidden);

// What tensors took while `body` ran.
struct Taken {
  int64_t peak = 0;     // beyond what stood before
  int64_t largest = 0;  // allocation
};
Taken taken_by(const std::function<void()>& body) {
  device::Ledger& ledger = device::ledger(at::kCPU);
  const int64_t before = ledger.live();
  std::vector<telemetry::MemoryEvent> events;
  ledger.reset_peak();
  ledger.start_recording(&events);
  body();
  ledger.stop_recording();
  Taken taken{ledger.peak() - before, 0};
  for (const telemetry::MemoryEvent& event : events) taken.largest = std::max(taken.largest, event.bytes);
  return taken;
}

// Live from step to step.
int64_t persistent_bytes() {
  int64_t bytes = 0;
  for (int category = 0; category < telemetry::kCategoryCount; ++category)
    if (const auto at = static_cast<telemetry::Category>(category); telemetry::is_persistent(at))
      bytes += device::ledger(at::kCPU).live(at);
  return bytes;
}

class StartMemory : public ::testing::Test {
 protected:
  StartMemory() {
    std::string pattern = (fs::temp_directory_path() / "muster-start-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    std::string ids;
    for (int at = 0; at < 400; ++at) ids += {static_cast<char>(at * at % 61), '\0'};
    write_text(folder_ / "ids.bin", ids);
    at::set_num_threads(1);
  }
  ~StartMemory() override { fs::remove_all(folder_); }

  spec::Job job(const std::vector<std::string>& settings = {}) const {
    spec::Job job = spec::parse_job(kJob, (folder_ / "job.toml").string(), settings);
    spec::resolve_layout(job, kRanks);
    return job;
  }
  fs::path checkpoint() const { return folder_ / "c/step-00000001.g1"; }

  // Both ranks, as threads.
  void save() const {
    const spec::Job job = this->job();
    checkpoint::PosixStorage storage;
    const checkpoint::Claim claim = checkpoint::take_generation(storage, folder_ / "c", kQuiet);
    const spec::Mesh mesh = spec::make_mesh(job.layout);
    comm::as_ranks(kRanks, [&](const comm::World& world) {
      const Clock clock;
      Rank rank(job, mesh, world.rank, comm::connect(mesh, world, "cpu", 60s, {60s}), at::kCPU, clock);
      checkpoint::Assembly assembly(rank.groups(), at::kCPU);
      checkpoint::Saver saver(storage, folder_ / "c", claim, world.rank, kRanks, 1, kQuiet);
      EXPECT_EQ(saver.save(assembly, state_of(rank), facts_of(job, kRanks, 1)).failure, "");
    });
  }

  fs::path folder_;
};

// One of the ranks, alone: its memory is its own then.
TEST_F(StartMemory, B042_NothingBeforeTheFirstStepTakesMoreThanAStep) {
  save();
  const Clock clock;
  for (const bool from_weights : {false, true}) {
    const spec::Job job = this->job(from_weights ? std::vector{"model.weights=" + checkpoint().string()}
                                                 : std::vector<std::string>{});
    const spec::Mesh mesh = spec::make_mesh(job.layout);
    std::unique_ptr<Rank> rank;
    const int64_t before = persistent_bytes();
    const Taken build = taken_by(
        [&] { rank = std::make_unique<Rank>(job, mesh, 0, comm::without_peers(mesh, 0), at::kCPU, clock); });
    const int64_t stands = persistent_bytes() - before;
    checkpoint::State state = state_of(*rank);
    const Taken load = taken_by([&] {
      checkpoint::load_one(checkpoint(), checkpoint::open_checkpoint(checkpoint()).manifest, state);
    });
    const data::Dataset dataset = data::Dataset::open_training(job);
    const Feed feed(job, mesh, 0, &dataset);
    const Taken step = taken_by([&] { rank->run_step(feed, 2); });
    EXPECT_EQ(stands, 16 * rank->table().elements() / kRanks);
    EXPECT_LE(build.peak, stands + step.peak);
    EXPECT_LE(load.peak, step.peak);
    for (const Taken& taken : {build, load, step}) EXPECT_LE(taken.largest, kLargestLayer);
  }
}

}  // namespace
}  // namespace muster::train
