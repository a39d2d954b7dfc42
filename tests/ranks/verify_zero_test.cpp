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
INSTANTIATE_TEST_SUITE_P(
    Grid, VerifyZero,
    ::testing::Values(Layout{"llama", 4, 1, 1, 1, 2, kDouble}, Layout{"gpt2", 4, 1, 2, 1, 1, ""},
                      Layout{"llama", 4, 2, 1, 2, 2, ""}, Layout{"gpt2", 4, 2, 2, 1, 1, kDouble},
                      Layout{"llama", 4, 3, 1, 1, 1, kDouble}, Layout{"gpt2", 4, 3, 1, 2, 2, kDouble},
                      Layout{"llama", 4, 3, 2, 1, 2, ""}, Layout{"gpt2", 2, 3, 1, 1, 4, ""},
                      Layout{"llama", 2, 3, 1, 1, 2, "--set model.tie_word_embeddings=true"},
                      Layout{"llama", 4, 2, 2, 1, 1, "--set model.tie_word_embeddings=true"},
                      Layout{"llama", 2, 3, 1, 1, 2, "--set layout.recompute=full"},
                      Layout{"llama", 2, 3, 1, 1, 2, "--set model.num_hidden_layers=1"}));

// Stage by stage, what shrinks to a piece. P is divisible by 4 in every bucket here: no padding.
TEST(ZeroMemory, EachStageDividesOneMore) {
  const Folder folder;
  const std::string job = small_job(folder, "llama") + " --world 4 --json --set layout.zero=";
  const auto bytes = [&](int stage) {
    const Outcome outcome = muster("rehearse " + job + std::to_string(stage));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out)["persistent_bytes"];
  };
  const Json whole = bytes(0);
  const int64_t values = whole["parameters"], gradients = whole["gradients"], optimizer = whole["optimizer"];
  EXPECT_EQ(optimizer, 2 * values);
  for (int stage : {1, 2, 3}) {
    const Json persistent = bytes(stage);
    EXPECT_EQ(persistent["optimizer"], optimizer / 4) << stage;
    EXPECT_EQ(persistent["gradients"], stage >= 2 ? gradients / 4 : gradients) << stage;
    EXPECT_EQ(persistent["parameters"], stage >= 3 ? values / 4 : values) << stage;
  }
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
