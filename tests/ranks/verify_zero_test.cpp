// `muster verify` over the stages of sharding, hybrid, with a tensor group, with accumulation, on sizes that
// divide nothing evenly; and the bytes that a rehearsal tells of each stage.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>

#include "tests/program.h"

namespace muster::test {
namespace {

// 31 positions or 46 columns over 4 ranks leave padding; a norm's weight may lie on two ranks or on one.
std::string uneven_job(const Folder& folder, const std::string& family) {
  return small_job(folder, family) +
         " --set model.vocab_size=66 --set model.hidden_size=28 --set model.num_attention_heads=2 "
         "--set model.num_key_value_heads=2 --set model.intermediate_size=46" +
         (family == "gpt2" ? " --set model.max_position_embeddings=31" : "");
}

struct Layout {
  const char* family;
  int procs, zero, replicate, tensor, micro_batch;
  const char* more;
};

class VerifyZero : public ::testing::TestWithParam<Layout> {};

TEST_P(VerifyZero, EveryProofHolds) {
  const Layout& l = GetParam();
  const Folder folder;
  std::string command = "verify " + uneven_job(folder, l.family) +
                        fmt::format(
                            " --procs {} --set layout.zero={} --set layout.tensor={} --set "
                            "training.micro_batch_size={} {}",
                            l.procs, l.zero, l.tensor, l.micro_batch, l.more);
  if (l.zero > 0) command += fmt::format(" --set layout.replicate={}", l.replicate);
  if (l.zero < 3) command += " --set training.bucket_bytes=20000";
  const Outcome outcome = muster(command);
  EXPECT_EQ(outcome.status, 0) << command << "\n" << outcome.out << outcome.err;
}

constexpr const char* kDouble = "--set numerics.compute=float64";
constexpr const char* kMuon = "--set optimizer.name=muon --set numerics.compute=float64";
INSTANTIATE_TEST_SUITE_P(
    Grid, VerifyZero,
    ::testing::Values(Layout{"llama", 4, 1, 1, 1, 2, kDouble}, Layout{"gpt2", 4, 1, 2, 1, 1, ""},
                      Layout{"llama", 4, 2, 1, 2, 2, ""}, Layout{"gpt2", 4, 2, 2, 1, 1, kDouble},
                      Layout{"llama", 4, 3, 1, 1, 1, kDouble}, Layout{"gpt2", 4, 3, 1, 2, 2, kDouble},
                      Layout{"llama", 4, 3, 2, 1, 2, ""}, Layout{"gpt2", 2, 3, 1, 1, 4, ""},
                      Layout{"llama", 2, 3, 1, 1, 2, "--set model.tie_word_embeddings=true"},
                      Layout{"llama", 4, 2, 2, 1, 1, "--set model.tie_word_embeddings=true"},
                      Layout{"llama", 2, 3, 1, 1, 2, "--set layout.recompute=full"},
                      Layout{"llama", 2, 3, 1, 1, 2, "--set model.num_hidden_layers=1"},
                      Layout{"llama", 2, 3, 1, 1, 2,
                             "--set layout.prefetch=0 --set layout.reduce_every=step"},
                      Layout{"gpt2", 2, 3, 1, 1, 2, "--set layout.prefetch=3"},
                      Layout{"llama", 2, 3, 1, 1, 2,
                             "--set layout.keep_after_forward=true --set model.tie_word_embeddings=true"},
                      Layout{"llama", 4, 2, 2, 1, 1, "--set layout.reduce_every=step"},
                      Layout{"llama", 4, 3, 1, 2, 2, "--set numerics.optimizer=bfloat16"},
                      Layout{"llama", 4, 0, 1, 2, 2, kMuon}, Layout{"gpt2", 4, 2, 2, 1, 1, kMuon},
                      Layout{"llama", 4, 3, 1, 2, 1, kMuon}));

// What a rank of `job` on a world of four says of itself.
Json rehearsed(const std::string& job, const std::string& more) {
  const Outcome outcome = muster("rehearse " + job + " --world 4 --json " + more);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Json::parse(outcome.out);
}

// P(b_w + b_g + b_o), each term divided by the ranks that share it: to the byte, with the padding that is
// listed. AdamW in fp32: 4 + 4 + 8.
TEST(ZeroMemory, EachStageDividesOneMore) {
  const Folder folder;
  int64_t listed = 0;
  for (const char* family : {"llama", "gpt2"})
    for (int tensor : {1, 2}) {
      const std::string job = uneven_job(folder, family) + fmt::format(" --set layout.tensor={}", tensor);
      const int64_t P = rehearsed(job, "")["persistent_bytes"]["parameters"].get<int64_t>() / 4;
      const int64_t n = 4 / tensor;
      for (int stage : {0, 1, 2, 3}) {
        const Json rank = rehearsed(job, fmt::format("--set layout.zero={}", stage));
        int64_t padding = 0;
        for (const Json& bucket : rank["bucket_padding"]) padding += bucket["elements"].get<int64_t>();
        EXPECT_TRUE(stage > 0 || padding == 0);
        listed += padding;
        const int64_t whole = P + padding, piece = whole / n;
        const Json& bytes = rank["persistent_bytes"];
        EXPECT_EQ(bytes["parameters"], 4 * (stage >= 3 ? piece : whole)) << family << tensor << stage;
        EXPECT_EQ(bytes["gradients"], 4 * (stage >= 2 ? piece : whole)) << family << tensor << stage;
        EXPECT_EQ(bytes["optimizer"], 8 * (stage >= 1 ? piece : whole)) << family << tensor << stage;
      }
    }
  EXPECT_GT(listed, 0);
}

// Muon keeps one state for the blocks' matrices and two for the rest, wherever they lie.
TEST(ZeroMemory, MuonKeepsOneStateForAMatrix) {
  constexpr int64_t kHidden = 32, kKeys = 16, kFfn = 48, kBlocks = 3;
  constexpr int64_t kLinear = kBlocks * kHidden * (2 * kHidden + 2 * kKeys + 3 * kFfn);
  const Folder folder;
  const std::string job = small_job(folder, "llama");
  for (const char* layout : {"", "--set layout.zero=1", "--set layout.zero=3 --set layout.replicate=2"}) {
    int64_t adamw = 0, muon = 0;
    for (int rank = 0; rank < 4; ++rank) {
      const std::string where = fmt::format("{} --rank {}", layout, rank);
      adamw += rehearsed(job, where)["persistent_bytes"]["optimizer"].get<int64_t>();
      muon += rehearsed(job, where + " --set optimizer.name=muon")["persistent_bytes"]["optimizer"]
                  .get<int64_t>();
    }
    const int copies = std::string(layout).empty()                                  ? 4
                       : std::string(layout).find("replicate") == std::string::npos ? 1
                                                                                    : 2;
    EXPECT_EQ(adamw - muon, 4 * kLinear * copies) << layout;
  }
}

// The unit in use and `prefetch` more are whole at a time, no other. Eight blocks, and the embeddings and the
// head smaller than one.
TEST(ZeroMemory, NoMoreUnitsAreGatheredThanTheSettingSays) {
  constexpr int64_t kHidden = 32, kKeys = 16, kFfn = 48, kBlocks = 8;
  constexpr int64_t kBlock = 4 * kHidden * (2 + 2 * kHidden + 2 * kKeys + 3 * kFfn);
  const Folder folder;
  const std::string job = small_job(folder, "llama") +
                          fmt::format(" --set model.num_hidden_layers={} --set layout.zero=3", kBlocks);
  for (int64_t prefetch : {0, 1, 2, 5})
    EXPECT_EQ(rehearsed(job, fmt::format("--set layout.prefetch={}", prefetch))["gathered_bytes"],
              (1 + prefetch) * kBlock)
        << prefetch;
  const Json kept = rehearsed(job, "--set layout.keep_after_forward=true");
  const int64_t pieces = kept["persistent_bytes"]["parameters"];
  // The embeddings are not: their backward reads none.
  EXPECT_EQ(kept["gathered_bytes"], 4 * pieces - 4 * 64 * kHidden);
  for (const Json& message : kept["messages"])
    if (message["op"] == "all_gather") {
      EXPECT_EQ(message["bytes"], 4 * pieces);
    }
}

// Whole gradients until the last micro-batch cost their memory, and spare the messages of all but one.
TEST(ZeroMemory, OneReductionAStepKeepsGradientsWhole) {
  const Folder folder;
  const std::string job =
      small_job(folder, "llama") + " --set training.micro_batch_size=1 --set layout.zero=3";
  const Json each = rehearsed(job, ""), once = rehearsed(job, "--set layout.reduce_every=step");
  const auto scattered = [](const Json& rank) {
    for (const Json& message : rank["messages"])
      if (message["op"] == "reduce_scatter") return message["bytes"].get<int64_t>();
    return int64_t{0};
  };
  EXPECT_EQ(each["persistent_bytes"], once["persistent_bytes"]);
  EXPECT_EQ(scattered(each), 2 * scattered(once));
  EXPECT_GT(once["peak_bytes"], each["peak_bytes"]);
}

// In whole buckets (docs/zero.md): a ring moves (n-1)/n of each. Stages 1 and 2 gather one copy of the model
// and scatter one, or one a micro-batch; stage 3 gathers every unit forward, and the blocks but the last
// again backward; the first block, which backward uses last, stays for the next micro-batch.
TEST(ZeroMessages, MoveTheCopiesThatTheirStageSays) {
  constexpr int64_t kMicroBatches = 2, kBlocks = 3, kHidden = 32, kKeys = 16, kFfn = 48;
  constexpr int64_t kBlock = 4 * kHidden * (2 + 2 * kHidden + 2 * kKeys + 3 * kFfn);
  const Folder folder;
  const std::string job = small_job(folder, "llama") + " --world 2 --json --set layout.zero=";
  for (int stage : {1, 2, 3}) {
    const Outcome outcome = muster("rehearse " + job + std::to_string(stage));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json rehearsed = Json::parse(outcome.out);
    std::map<std::string, int64_t> bytes;
    for (const Json& message : rehearsed["messages"]) bytes[message["op"]] = message["bytes"];
    const int64_t shards = stage == 3 ? 2 : 1;
    const int64_t model = rehearsed["persistent_bytes"]["parameters"].get<int64_t>() * shards;
    EXPECT_EQ(
        bytes["all_gather"],
        stage == 3 ? kMicroBatches * (model + (kBlocks - 1) * kBlock) - (kMicroBatches - 1) * kBlock : model)
        << stage;
    EXPECT_EQ(bytes["reduce_scatter"], stage == 1 ? model : kMicroBatches * model) << stage;
  }
}

TEST(ZeroRefusals, NobodyToShareWith) {
  const Folder folder;
  const Outcome outcome = muster("train " + small_job(folder, "llama") + " --procs 1 --set layout.zero=1");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.err.find("layout.zero"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace muster::test
