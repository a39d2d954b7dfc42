// Communication that computation hides, on links slow enough for it to show: what the record of a run says
// was exposed, and why.
#include <gtest/gtest.h>

#include "telemetry/step_record.h"
#include "tests/slow_links.h"

namespace muster::test {
namespace {

struct Ran {
  Json exposures;
  telemetry::StepRecord record;  // of rank 0's step
  double link_rate = 0;          // bytes a second; 0: fast
  double compute_seconds() const {
    double seconds = 0;
    for (const telemetry::OpEvent& op : record.ops) seconds += op.seconds;
    return seconds;
  }
};

// Two steps; the second is recorded.
Ran train(const SlowLinks& links, const std::string& job, const fs::path& folder) {
  const Outcome outcome = links.muster(
      "train " + job + " --set training.steps=2 --set optimizer.name=sgd --run " + folder.string());
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  Ran ran;
  ran.exposures = parse_json(read_text(folder / "summary.json"), "summary").at("exposures");
  ran.record = telemetry::step_record_from_json(
      parse_json(read_text(folder / "trace" / "record.measured.json"), "record"), "record");
  fs::remove_all(folder);
  return ran;
}

// What a rank sends for a message: to the (n - 1) of n that are others.
double sent_bytes(const std::string& op, int64_t bytes, int64_t ranks) {
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  const double factor = op == "receive" ? 0 : op == "send" ? 1 : op == "all_reduce" ? 2 * others : others;
  return factor * static_cast<double>(bytes);
}

// And in a step.
double sent_bytes(const std::string& job, int ranks) {
  const Outcome outcome = muster("rehearse " + job + " --json --world " + std::to_string(ranks));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  double bytes = 0;
  const Json rehearsal = Json::parse(outcome.out);
  for (const Json& message : rehearsal["messages"])
    bytes += sent_bytes(message["op"], message["bytes"], ranks);
  return bytes;
}

// Runs the job over links on which its messages take `share` of the time that it computes, learnt from a run
// over fast ones: a slow machine and a busy one have slow links.
Ran train_slowly(const std::string& job, int ranks, double share) {
  const Folder folder;
  SlowLinks links(ranks);
  const Ran fast = train(links, job, folder / "fast");
  const double rate = sent_bytes(job, ranks) / (share * fast.compute_seconds());
  links.set_rate(rate);
  std::printf("a step computes %.2f s; links of %.1f MB/s\n", fast.compute_seconds(), rate / 1e6);
  Ran slow = train(links, job, folder / "slow");
  slow.link_rate = rate;
  return slow;
}

// The share of the time on the link that was exposed, of `op`, without what could not hide: what was needed
// before anything was computed, and what came when nothing was left to compute.
double exposed_share(const Ran& ran, const std::string& op) {
  for (const Json& exposure : ran.exposures) {
    if (exposure["op"] != op) continue;
    double exposed = exposure["exposed_seconds"];
    for (const Json& part : exposure["parts"]) {
      const std::string why = part["why"];
      std::printf("%s: %.3f s of %.3f on the link, %ld messages of %ld: %s; most before %s\n", op.c_str(),
                  part["seconds"].get<double>(), exposure["link_seconds"].get<double>(),
                  part["count"].get<long>(), exposure["count"].get<long>(), why.c_str(),
                  part["where"].get<std::string>().c_str());
      if (why.starts_with("the step's ")) exposed -= part["seconds"].get<double>();
    }
    return exposed / exposure["link_seconds"].get<double>();
  }
  ADD_FAILURE() << "no " << op << " among " << ran.exposures;
  return 1;
}

bool has_cause(const Ran& ran, const std::string& op, const std::string& why) {
  for (const Json& exposure : ran.exposures)
    for (const Json& part : exposure["parts"])
      if (exposure["op"] == op && part["why"].get<std::string>().starts_with(why)) return true;
  return false;
}

constexpr const char* kWide =
    " --set model.hidden_size=128 --set model.intermediate_size=352 --set model.num_key_value_heads=4 --set "
    "model.num_hidden_layers=6 --set data.sequence_length=256 --set model.max_position_embeddings=256 --set "
    "training.micro_batch_size=16 --set training.global_batch_size=64";
constexpr const char* kABlockABucket = " --set training.bucket_bytes=500000";

TEST(Overlap, ZeROsMessagesHideBesideTheBlocks) {
  const Folder folder;
  const std::string job = small_job(folder, "llama") + kWide;
  const Ran pieces = train_slowly(job + " --set layout.zero=3", 4, 0.25);
  EXPECT_LT(exposed_share(pieces, "all_gather"), 0.1);
  EXPECT_LT(exposed_share(pieces, "reduce_scatter"), 0.1);
  EXPECT_TRUE(has_cause(pieces, "all_gather", "the step's first"));
  EXPECT_TRUE(has_cause(pieces, "reduce_scatter", "the step's last"));
}

TEST(Overlap, ReductionsHideBesideBackward) {
  const Folder folder;
  const std::string job = small_job(folder, "llama") + kWide;
  const Ran shared = train_slowly(job + kABlockABucket + " --set layout.zero=2", 4, 0.2);
  EXPECT_LT(exposed_share(shared, "reduce_scatter"), 0.1);
  EXPECT_LT(exposed_share(shared, "all_gather"), 0.1);
  // Gloo's all-reduce takes many turns of its thread: on two cores two ranks leave it some.
  const Ran whole = train_slowly(job + kABlockABucket + " --set training.global_batch_size=32", 2, 0.2);
  EXPECT_LT(exposed_share(whole, "all_reduce"), 0.1);
}

// The messages of an axis' layers: those with a product or attention between their issue and their need, and
// the rest.
struct Beside {
  int64_t count = 0, alone = 0;
  double wire_seconds = 0;     // that the link takes for what this rank sends of the first
  double exposed_seconds = 0;  // that the rank stood still for them, receives too
  double share() const { return exposed_seconds / wire_seconds; }
};

// Of these operations, without what is too small to take time.
Beside beside(const Ran& ran, const std::vector<std::string>& ops) {
  constexpr int64_t kSmall = 256 << 10;
  std::vector<double> flops{0};
  for (const telemetry::OpEvent& op : ran.record.ops) flops.push_back(flops.back() + op.flops);
  Beside sum;
  for (const telemetry::MessageEvent& message : ran.record.messages) {
    if (std::ranges::count(ops, message.op) == 0 || message.bytes < kSmall) continue;
    if (flops[message.issued_after] == flops[message.needed_after]) {
      ++sum.alone;
      continue;
    }
    ++sum.count;
    sum.wire_seconds += sent_bytes(message.op, message.bytes, message.group_size) / ran.link_rate;
    sum.exposed_seconds += message.exposed_seconds;
  }
  std::printf("%s: %ld beside products, %.3f s exposed of %.3f on the link; %ld alone\n", ops.front().c_str(),
              sum.count, sum.exposed_seconds, sum.wire_seconds, sum.alone);
  return sum;
}

// What others do on the machine exposes messages, and hides none: the least of three tries.
template <class Share>
double least_of_three(double most, Share&& share) {
  double least = share();
  for (int more = 0; more < 2 && least >= most; ++more) least = std::min(least, share());
  return least;
}

constexpr double kMostExposed = 0.2;
constexpr int64_t kLayers = 2;

// A hop takes less than attention over the rank's own rows, and than the gradients of the output projection,
// beside which the first hop of backward travels. Keys and values come to three hops a layer among two ranks.
TEST(Overlap, TheRingsMessagesHideBesideAttention) {
  const Folder folder;
  const std::string job =
      small_job(folder, "llama") +
      " --set model.hidden_size=512 --set model.intermediate_size=96 --set model.num_key_value_heads=1 --set "
      "model.num_hidden_layers=2 --set data.sequence_length=3072 --set model.max_position_embeddings=3072 "
      "--set "
      "training.micro_batch_size=2 --set training.global_batch_size=2 --set layout.context=2";
  EXPECT_LT(least_of_three(kMostExposed,
                           [&] {
                             const Beside hops = beside(train_slowly(job, 2, 0.1), {"send", "receive"});
                             EXPECT_EQ(hops.count, 2 * 3 * kLayers);
                             EXPECT_EQ(hops.alone, 0);
                             return hops.share();
                           }),
            kMostExposed);
}

// Two ranks, of whose products the narrowest, half of the output projection, takes longer than its message.
std::string split_job(const Folder& folder) {
  return small_job(folder, "llama") +
         " --set model.hidden_size=2048 --set model.intermediate_size=2048 --set model.num_hidden_layers=2 "
         "--set model.num_attention_heads=16 --set model.num_key_value_heads=4 --set "
         "data.sequence_length=512 --set model.max_position_embeddings=512 --set "
         "training.micro_batch_size=4 --set training.global_batch_size=4 --set layout.tensor=2";
}

// Not hidden by design is the last part of a scatter of forward, and here two ranks' products, and the work
// of their messages, share two cores. Nothing hidden would be 1.
constexpr double kMostExposedOfRows = 0.5;

// With shared rows a gather travels beside the product of the rank's own rows, a scatter beside its last, and
// in backward beside the weights' products. Alone are those of the embeddings, and the loss's first gather.
TEST(Overlap, GathersAndScattersOfRowsHideBesideTheirProducts) {
  const Folder folder;
  const std::string job = split_job(folder) + " --set layout.sequence_parallel=true";
  EXPECT_LT(least_of_three(kMostExposedOfRows,
                           [&] {
                             const Ran ran = train_slowly(job, 2, 0.4);
                             const Beside gathers = beside(ran, {"all_gather"}),
                                          scatters = beside(ran, {"reduce_scatter"});
                             EXPECT_EQ(gathers.alone, 2);
                             EXPECT_EQ(scatters.alone, 1);
                             return std::max(gathers.share(), scatters.share());
                           }),
            kMostExposedOfRows);
}

// Without, a sum is four messages, of which each but the last travels beside the rest of its product; in
// backward the last one beside the weights' product. So of forward's sums a quarter is exposed.
TEST(Overlap, SumsHideBesideTheRestOfTheirProducts) {
  const Folder folder;
  const std::string job = split_job(folder);
  EXPECT_LT(least_of_three(kMostExposed,
                           [&] {
                             const Beside sums = beside(train_slowly(job, 2, 0.12), {"all_reduce"});
                             EXPECT_EQ(sums.alone, 2 * kLayers + 2);
                             return sums.share();
                           }),
            kMostExposed);
}

}  // namespace
}  // namespace muster::test
