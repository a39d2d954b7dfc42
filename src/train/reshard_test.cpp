// RELIABILITY scenario 39: a checkpoint that one layout saved, loaded by another, for all ordered pairs of
// the layouts below. Ranks are threads. What was held before comes from Rank::whole, and what then must
// be held from the parameter table: neither knows how checkpoints cut a tensor.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <numeric>

#include "base/error.h"
#include "checkpoint/convert.h"
#include "checkpoint/set/save.h"
#include "checkpoint/weight_files.h"
#include "comm/testing.h"
#include "spec/mesh/local_shape.h"
#include "train/optim/orthogonalize.h"
#include "train/state.h"

namespace muster::train {
namespace {

using namespace std::chrono_literals;

// A layout is the number of its processes and what the job then says. More of them: add a line.
struct Layout {
  int64_t procs;
  std::vector<std::string> settings;
};

// Several buckets, whose pieces end within a tensor.
constexpr const char* kBuckets = "training.bucket_bytes=20000";
const std::vector<Layout> kLayouts = {
    {1, {}},
    {2, {}},
    {2, {"layout.zero=1", kBuckets}},
    {3, {"layout.zero=3", "training.micro_batch_size=4"}},
    {4, {"layout.zero=2", kBuckets, "layout.replicate=2"}},
    {4, {"layout.zero=3", "layout.replicate=2"}},
    {8, {"layout.zero=1", kBuckets, "layout.replicate=4"}},
    {2, {"layout.tensor=2"}},
    // Two ranks share a key-value head, and the vocabulary is padded.
    {4, {"layout.tensor=4", "layout.sequence_parallel=true"}},
    {4, {"layout.tensor=2", "layout.sequence_parallel=true", "layout.zero=2", kBuckets}},
    {4, {"layout.tensor=2", "layout.order=[\"data\", \"tensor\", \"context\", \"pipeline\"]"}},
    {8, {"layout.tensor=2", "layout.sequence_parallel=true", "layout.zero=3", "layout.replicate=2"}},
    {2, {"layout.context=2"}},
    {4, {"layout.context=2", "layout.context_method=all_to_all", "layout.zero=3"}},
    // The optimizer's state is in a file, beside the job.
    {2, {"layout.zero=2", kBuckets, "layout.offload=file", "layout.offload_path=."}},
};

// 24 sequences a step divide over 1, 2, 3, 4 and 8 ranks; no width but the heads' divides evenly.
constexpr const char* kJob =
    "vocab_size = 66\nhidden_size = 20\nnum_hidden_layers = 2\nnum_attention_heads = 4\n"
    "max_position_embeddings = 16\n[data]\npath = \"ids.bin\"\nformat = \"uint16\"\nsequence_length = 8\n"
    "[training]\nglobal_batch_size = 24\nmicro_batch_size = 3\nsteps = 7\nthreads = 1\ndropout = 0.1\n"
    "[optimizer]\nlearning_rate = 1e-3\n[numerics]\ncompute = \"float64\"\n"
    "[checkpoint]\nevery = 2\ncontract = \"coverage-equivalent\"\n";
constexpr int64_t kSaved = 2, kAfter = 5, kSamples = 32;

const Log kQuiet("", LogLevel::error);

// What a run holds and does from the checkpoint on, the same whatever the layout.
struct Account {
  std::map<std::string, at::Tensor> tensors;      // whole, by the checkpoint's names
  std::map<int64_t, std::vector<int32_t>> reads;  // of the next samples: ids
  std::vector<double> losses, gradient_norms;
};

// One rank of a run of a layout, a thread.
class Member {
 public:
  Member(const spec::Job& job, const comm::World& world)
      : job_(job),
        dataset_(data::Dataset::open_training(job)),
        rank_(job, spec::make_mesh(job.layout), world.rank,
              comm::connect(spec::make_mesh(job.layout), world, "cpu", 60s, {60s}), at::kCPU, clock_),
        feed_(job, rank_.mesh(), world.rank, &dataset_),
        assembly_(rank_.groups(), at::kCPU),
        state_(state_of(rank_)) {
    at::set_num_threads(1);
  }

  StepResult step(int64_t number) { return rank_.run_step(feed_, number); }

  void save(const fs::path& root, const checkpoint::Claim& claim) {
    checkpoint::PosixStorage storage;
    checkpoint::Saver saver(storage, root, claim, rank_.number(), rank_.mesh().world_size(), 1, kQuiet);
    const auto outcome = saver.save(assembly_, state_, facts_of(job_, rank_.mesh().world_size(), kSaved));
    EXPECT_EQ(outcome.failure, "");
  }
  void load(const fs::path& root) {
    const auto manifest = checkpoint::load_newest(
        assembly_, root, state_, expected_of(job_, rank_.mesh().world_size()), rank_.number(), kQuiet);
    ASSERT_TRUE(manifest);
    check_cursor(*manifest, job_);
    EXPECT_EQ(rank_.optimizer().updates(), kSaved);
  }

  // Collective; every rank gets all of them.
  std::map<std::string, at::Tensor> tensors() {
    std::map<std::string, at::Tensor> all;
    for_each([&](const std::string& name, const spec::ParameterRow& row, const at::Tensor& own) {
      all[name] = rank_.whole(row, own).clone();
    });
    return all;
  }
  // The tensors, of those given whole, of which this rank does not own what the wholes say.
  std::vector<std::string> other_than(const std::map<std::string, at::Tensor>& wholes) {
    std::vector<std::string> names;
    for_each([&](const std::string& name, const spec::ParameterRow& row, const at::Tensor& own) {
      const auto whole = wholes.find(name);
      if (whole != wholes.end() && !at::equal(own, owned_of(row, whole->second))) names.push_back(name);
    });
    return names;
  }
  // No rank ends while another still connects. Collective.
  void meet() { assembly_.maximum(0); }
  int64_t updates() const { return rank_.optimizer().updates(); }

  // The samples that this rank's step reads: its own ids where they stand in the sample.
  void read(int64_t number, std::map<int64_t, std::vector<int32_t>>& reads) {
    if (rank_.mesh().coordinate(rank_.number(), spec::Axis::tensor) != 0) return;
    const int64_t length = job_.data.sequence_length;
    for (int64_t micro_batch = 0; micro_batch < feed_.micro_batches(); ++micro_batch) {
      const nn::MicroBatch batch = feed_.load(rank_.executor(), number, micro_batch).batch;
      for (const nn::RowRun& run : batch.positions.runs) {
        const int64_t sample = (number - 1) * job_.training.global_batch_size + run.token / length;
        std::vector<int32_t>& read = reads[sample];
        read.resize(static_cast<size_t>(length), -1);
        std::copy_n(batch.ids_N.const_data_ptr<int32_t>() + run.row, run.rows,
                    read.begin() + run.token % length);
      }
    }
  }

 private:
  template <class Body>
  void for_each(const Body& body) {
    for (const spec::ParameterRow& row : rank_.table().rows()) {
      const at::Tensor value = rank_.parameters().value_piece(row);
      body("parameters/" + row.name, row, value);
      for (const Optimizer::State& state : rank_.optimizer().states_of(row, value))
        body("optimizer." + state.name + "/" + row.name, row, elements_of(state));
    }
  }
  static at::Tensor elements_of(const Optimizer::State& state) {
    if (!state.read) return state.local;
    const at::Tensor elements = at::empty(state.local.sizes(), state.local.options());
    state.read(elements);
    return elements;
  }
  // What this rank owns of a tensor, its padding zero.
  at::Tensor owned_of(const spec::ParameterRow& row, const at::Tensor& whole) const {
    const spec::LocalPart place = spec::local_part(row, rank_.mesh(), rank_.number());
    const at::Tensor part = at::zeros(spec::local_shape(row, rank_.mesh()), whole.options());
    for (const spec::IndexRun& run : place.runs)
      part.narrow(place.dim, run.local, run.size).copy_(whole.narrow(place.dim, run.global, run.size));
    const nn::FlatRange own = rank_.parameters().owned(row);
    return part.view({-1}).narrow(0, own.first, own.size);
  }

  const spec::Job& job_;
  Clock clock_;
  data::Dataset dataset_;
  Rank rank_;
  Feed feed_;
  checkpoint::Assembly assembly_;
  checkpoint::State state_;
};

struct Case {
  const char* model;
  const char* optimizer;
};

// All of them, but for Muon with MUSTER_SOAK=1 alone: sharding by bytes is the same, and these have more than
// one rank of each kind to give matrices to.
std::vector<size_t> layouts_of(const Case& c) {
  if (std::string_view(c.optimizer) == "muon" && !std::getenv("MUSTER_SOAK"))
    return {0, 1, 3, 8, 9, 11, 13, 14};
  std::vector<size_t> all(kLayouts.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class Reshard : public ::testing::TestWithParam<Case> {
 protected:
  Reshard() {
    std::string pattern = (fs::temp_directory_path() / "muster-reshard-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    std::string ids;
    for (int at = 0; at < 4000; ++at) ids += {static_cast<char>(at * at % 61), '\0'};
    write_text(folder_ / "ids.bin", ids);
  }
  ~Reshard() override { fs::remove_all(folder_); }

  spec::Job job(const Layout& layout, const fs::path& weights = {}) const {
    std::vector<std::string> settings = layout.settings;
    if (!weights.empty()) settings.push_back("model.weights=" + weights.string());
    settings.push_back(std::string("optimizer.name=") + GetParam().optimizer);
    for (const char* key : {"parameters", "gradients", "optimizer"})
      settings.push_back(std::string("numerics.") + key + "=float64");
    spec::Job job = spec::parse_job(std::string("[model]\n") + GetParam().model + kJob,
                                    (folder_ / "job.toml").string(), settings);
    spec::resolve_layout(job, layout.procs);
    return job;
  }
  fs::path root(size_t layout) const { return folder_ / std::to_string(layout); }
  fs::path checkpoint(size_t layout) const { return root(layout) / "step-00000002.g1"; }

  // Trains, saves, and goes on without a break for so many steps.
  Account save(size_t number, int64_t steps = kAfter) const {
    const spec::Job job = this->job(kLayouts[number]);
    checkpoint::PosixStorage storage;
    const checkpoint::Claim claim = checkpoint::take_generation(storage, root(number), kQuiet);
    Account account;
    std::mutex mutex;
    comm::as_ranks(kLayouts[number].procs, [&](const comm::World& world) {
      Member member(job, world);
      for (int64_t step = 1; step <= kSaved; ++step) member.step(step);
      member.save(root(number), claim);
      auto tensors = member.tensors();
      if (world.rank == 0) account.tensors = std::move(tensors);
      go_on(member, world.rank, steps, account, mutex);
    });
    return account;
  }

  // What comes after the checkpoint: the ids of the next samples, and so many steps.
  static void go_on(Member& member, int64_t rank, int64_t steps, Account& account, std::mutex& mutex) {
    for (int64_t step = kSaved + 1; step <= kSaved + (kSamples + 23) / 24; ++step) {
      const std::lock_guard lock(mutex);
      member.read(step, account.reads);
    }
    for (int64_t step = kSaved + 1; step <= kSaved + steps; ++step) {
      const StepResult result = member.step(step);
      if (rank != 0) continue;
      account.losses.push_back(result.loss);
      account.gradient_norms.push_back(result.grad_norm);
    }
  }

  // A layout's checkpoint as a Hugging Face folder.
  fs::path exported(size_t number) const {
    const fs::path folder = folder_ / fmt::format("exported-{}", number);
    checkpoint::convert_weights(checkpoint(number), folder, checkpoint::read_model(checkpoint(number)),
                                {.save = {.max_shard_bytes = 8000}});
    return folder;
  }
  // What every rank of a layout owns that starts from `weights` is what the wholes say.
  void expect_starts_from(size_t layout, const fs::path& weights, const Account& saved) const {
    const spec::Job job = this->job(kLayouts[layout], weights);
    std::map<std::string, at::Tensor> parameters = saved.tensors;
    std::erase_if(parameters, [](const auto& entry) { return !entry.first.starts_with("parameters/"); });
    comm::as_ranks(kLayouts[layout].procs, [&](const comm::World& world) {
      Member member(job, world);
      EXPECT_THAT(member.other_than(parameters), ::testing::IsEmpty()) << "rank " << world.rank;
      EXPECT_EQ(member.updates(), 0);
      member.meet();
    });
  }

  fs::path folder_;
};

// Ranks of an axis may read parts of a sample: together they read all of it.
void expect_same_samples(Account whole, Account resumed) {
  ASSERT_GE(whole.reads.size(), static_cast<size_t>(kSamples));
  EXPECT_EQ(whole.reads, resumed.reads);
  EXPECT_EQ(whole.reads.begin()->first, kSaved * 24);
}

// docs/checkpoints.md: one step in another order of sums moves loss and gradient by t = 2^-53 x (8
// micro-batches + 64 other orders) x 2 for cancellation, of themselves. An update by Adam at rate r turns an
// error d of a gradient's element into at most r d/|g| of its parameter, all elements together into r sqrt(n)
// t |g| of the loss; so the loss after k updates is within t (1 + k r sqrt(n) |g| / loss) of itself. Muon's
// updates are as large, and its errors `growth` times so (optim/orthogonalize.h).
void expect_near(const Account& whole, const Account& resumed, int64_t steps, double growth) {
  double elements = 0;
  for (const auto& [name, tensor] : whole.tensors)
    if (name.starts_with("parameters/")) elements += static_cast<double>(tensor.numel());
  const double t = 0x1p-53 * (8 + 64) * 2, rate = 1e-3;
  ASSERT_EQ(resumed.losses.size(), static_cast<size_t>(steps));
  for (size_t k = 0; k < resumed.losses.size(); ++k) {
    const double loss = whole.losses[k], norm = whole.gradient_norms[k];
    const double most = t * (1 + static_cast<double>(k) * growth * rate * std::sqrt(elements) * norm / loss);
    EXPECT_NEAR(resumed.losses[k], loss, most * loss) << "step " << kSaved + 1 + static_cast<int64_t>(k);
  }
}

// Where a run goes on: after every load with MUSTER_SOAK=1, else after the load of its neighbours.
int64_t steps_after(size_t from, size_t to, size_t layouts) {
  const size_t distance = (to + layouts - from) % layouts;
  return std::getenv("MUSTER_SOAK") || distance <= 1 ? kAfter : 0;
}

double growth(const Case& c) {
  return std::string_view(c.optimizer) == "muon" ? orthogonalize_condition(5) : 1;
}

TEST_P(Reshard, S39_EveryLayoutLoadsWhatEveryOtherSaved) {
  const std::vector<size_t> layouts = layouts_of(GetParam());
  std::vector<Account> saved;
  for (size_t from : layouts) saved.push_back(save(from));
  for (size_t to = 0; to < layouts.size(); ++to) {
    const spec::Job job = this->job(kLayouts[layouts[to]]);
    std::vector<Account> resumed(layouts.size());
    std::mutex mutex;
    comm::as_ranks(kLayouts[layouts[to]].procs, [&](const comm::World& world) {
      Member member(job, world);
      for (size_t from = 0; from < layouts.size(); ++from) {
        member.load(root(layouts[from]));
        EXPECT_THAT(member.other_than(saved[from].tensors), ::testing::IsEmpty())
            << fmt::format("layout {} -> {}, rank {}", layouts[from], layouts[to], world.rank);
        go_on(member, world.rank, steps_after(from, to, layouts.size()), resumed[from], mutex);
      }
    });
    for (size_t from = 0; from < layouts.size(); ++from) {
      SCOPED_TRACE(fmt::format("layout {} -> {}", layouts[from], layouts[to]));
      expect_same_samples(saved[from], resumed[from]);
      expect_near(saved[from], resumed[from], steps_after(from, to, layouts.size()), growth(GetParam()));
    }
  }
}

// CASES B024 and issue 7's export and import: the parameters of any layout's checkpoint are the start of a
// new training under any other, and a Hugging Face folder of the same bits, which every layout reads as well.
// Each layout in CI from the one before it and from its own.
TEST_P(Reshard, WeightsGoFromEveryLayoutToEveryOther) {
  for (size_t from = 0; from < kLayouts.size(); ++from) {
    SCOPED_TRACE(fmt::format("layout {}", from));
    const Account saved = save(from, 0);
    const fs::path published = exported(from);
    const checkpoint::WeightFiles files(published);
    EXPECT_GT(files.files().size(), 2u) << "shards";
    for (const checkpoint::StoredTensor& tensor : files.tensors()) {
      const at::Tensor& whole = saved.tensors.at("parameters/" + tensor.name);
      const at::Tensor back = at::empty_like(whole);
      files.read(tensor, back);
      EXPECT_TRUE(at::equal(back, whole)) << tensor.name;
    }
    const size_t next = (from + 1) % kLayouts.size();
    for (size_t to = 0; to < kLayouts.size(); ++to)
      if (to == next || std::getenv("MUSTER_SOAK")) expect_starts_from(to, checkpoint(from), saved);
    expect_starts_from(from, published, saved);
  }
}

constexpr const char* kLlama =
    "family = \"llama\"\nnum_key_value_heads = 2\nhead_dim = 6\nintermediate_size = 28\n";
constexpr const char* kGpt2 = "family = \"gpt2\"\n";
INSTANTIATE_TEST_SUITE_P(Families, Reshard,
                         ::testing::Values(Case{kLlama, "adamw"}, Case{kGpt2, "adamw"},
                                           Case{kLlama, "muon"}));

}  // namespace
}  // namespace muster::train
