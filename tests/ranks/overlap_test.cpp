// Communication that computation hides, on links slow enough for it to show: what the record of a run says
// was exposed, and why.
#include <gtest/gtest.h>

#include "tests/slow_links.h"

namespace muster::test {
namespace {

struct Ran {
  Json exposures, operators;
  double compute_seconds = 0;  // of the recorded step
};

// Two steps; the second is recorded.
Ran train(const SlowLinks& links, const std::string& job, const fs::path& folder) {
  const Outcome outcome = links.muster(
      "train " + job + " --set training.steps=2 --set optimizer.name=sgd --run " + folder.string());
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  Ran ran;
  ran.exposures = parse_json(read_text(folder / "summary.json"), "summary").at("exposures");
  const Json record = parse_json(read_text(folder / "trace" / "record.measured.json"), "record");
  constexpr size_t kSeconds = 6;  // of an operator's row
  for (const Json& op : record["ops"]) ran.compute_seconds += op[kSeconds].get<double>();
  fs::remove_all(folder);
  return ran;
}

// What a rank sends in a step, over the (n - 1) of n that are others.
double sent_bytes(const std::string& job, int ranks) {
  const Outcome outcome = muster("rehearse " + job + " --json --world " + std::to_string(ranks));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  double bytes = 0;
  const Json rehearsal = Json::parse(outcome.out);
  for (const Json& message : rehearsal["messages"]) {
    const std::string op = message["op"];
    const double others = (ranks - 1.0) / ranks;
    const double factor = op == "receive" ? 0 : op == "send" ? 1 : op == "all_reduce" ? 2 * others : others;
    bytes += factor * message["bytes"].get<double>();
  }
  return bytes;
}

// Runs the job over links on which its messages take `share` of the time that it computes, learnt from a run
// over fast ones: a slow machine and a busy one have slow links.
Ran train_slowly(const std::string& job, int ranks, double share) {
  const Folder folder;
  SlowLinks links(ranks);
  const Ran fast = train(links, job, folder / "fast");
  const double rate = sent_bytes(job, ranks) / (share * fast.compute_seconds);
  links.set_rate(rate);
  std::printf("a step computes %.2f s; links of %.1f MB/s\n", fast.compute_seconds, rate / 1e6);
  return train(links, job, folder / "slow");
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

}  // namespace
}  // namespace muster::test
