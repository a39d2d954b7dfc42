// `muster verify` over families, processes and accumulation: update, memory and messages.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/program.h"

namespace muster::test {
namespace {

using Layout = std::tuple<const char*, int, int, const char*>;  // family, processes, micro-batch size, dtype

class VerifyLayouts : public ::testing::TestWithParam<Layout> {};

// Verifies a job over `procs` ranks and counts that nothing was left out.
void expect_every_proof(const std::string& command, int procs) {
  const Outcome outcome = muster("verify " + command + " --json --procs " + std::to_string(procs));
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const Json result = Json::parse(outcome.out);
  EXPECT_EQ(result["passed"], true);
  int64_t memory = 0, messages = 0, gradients = 0;
  for (const Json& check : result["checks"]) {
    EXPECT_EQ(check["passed"], true) << check;
    const auto name = check["name"].get<std::string>();
    memory += name.rfind("memory", 0) == 0;
    messages += name.rfind("communication", 0) == 0;
    gradients += name.rfind("gradient", 0) == 0;
  }
  EXPECT_EQ(memory, 7 * procs);
  EXPECT_EQ(messages, 2 * procs);
  EXPECT_GT(gradients, 20);
}

TEST_P(VerifyLayouts, EveryProofHolds) {
  const auto [family, procs, micro_batch_size, dtype] = GetParam();
  const Folder folder;
  expect_every_proof(small_job(folder, family) + " --set training.micro_batch_size=" +
                         std::to_string(micro_batch_size) + " --set numerics.compute=" + dtype,
                     procs);
}

INSTANTIATE_TEST_SUITE_P(All, VerifyLayouts,
                         ::testing::Combine(::testing::Values("llama", "gpt2"), ::testing::Values(1, 2, 4),
                                            ::testing::Values(1, 2),
                                            ::testing::Values("float32", "float64")));

// family, data x tensor, micro-batch size and dtype
using TensorLayout = std::tuple<const char*, std::pair<int, int>, std::pair<int, const char*>>;

class VerifyTensorLayouts : public ::testing::TestWithParam<TensorLayout> {};

TEST_P(VerifyTensorLayouts, EveryProofHolds) {
  const auto& [family, mesh, work] = GetParam();
  const auto& [data, tensor] = mesh;
  const Folder folder;
  expect_every_proof(small_job(folder, family) +
                         fmt::format(" --set model.num_key_value_heads=4 --set layout.tensor={} --set "
                                     "training.micro_batch_size={} --set numerics.compute={}",
                                     tensor, work.first, work.second),
                     data * tensor);
}

INSTANTIATE_TEST_SUITE_P(
    All, VerifyTensorLayouts,
    ::testing::Combine(::testing::Values("llama", "gpt2"),
                       ::testing::Values(std::pair(1, 2), std::pair(1, 4), std::pair(2, 2), std::pair(2, 4)),
                       ::testing::Values(std::pair(1, "float64"), std::pair(4, "float64"),
                                         std::pair(2, "float32"))));

TEST(VerifyMore, ATensorGroupWithEverything) {
  const Folder folder;
  const std::string llama =
      small_job(folder, "llama") + " --set layout.tensor=2 --set numerics.compute=float64";
  for (const char* more :
       {"", "--set model.tie_word_embeddings=true", "--set model.attention_bias=true",
        "--set training.dropout=0.2", "--set training.loss_chunk_tokens=7 --set layout.data=2",
        "--set 'layout.order=[\"data\",\"tensor\",\"context\",\"pipeline\"]' --set layout.data=2",
        "--set training.bucket_bytes=20000 --set optimizer.name=sgd"}) {
    const Outcome outcome = muster("verify " + llama + " " + more);
    EXPECT_EQ(outcome.status, 0) << more << "\n" << outcome.out << outcome.err;
  }
  const Folder other;
  const std::string gpt2 = small_job(other, "gpt2") + " --set layout.tensor=2 --set training.dropout=0.2";
  const Outcome outcome = muster("verify " + gpt2);
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
}

// A layer sums s b h elements twice forward and twice backward (Megatron-LM, section 3); the embeddings and
// the gradient of the head once each. The loss sends the largest logit of each row, then two fp64 sums, and
// the norm one fp64 sum a step.
TEST(VerifyMore, TensorMessagesHaveAClosedForm) {
  constexpr int64_t kLayers = 3, kHidden = 32, kRows = 2 * 24, kMicroBatches = 4, kBytes = 4, kChunk = 20;
  const Folder llama, gpt2;
  for (const std::string& job : {small_job(llama, "llama"), small_job(gpt2, "gpt2")}) {
    const Outcome outcome = muster("rehearse " + job + " --world 2 --json --set layout.tensor=2 --set " +
                                   "training.loss_chunk_tokens=" + std::to_string(kChunk));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Json messages = Json::parse(outcome.out)["messages"];
    ASSERT_EQ(messages.size(), 1u) << messages;
    EXPECT_EQ(messages[0]["axis"], "tensor");
    EXPECT_EQ(messages[0]["op"], "all_reduce");
    constexpr int64_t kOfRows = 4 * kLayers + 2, kChunks = (kRows + kChunk - 1) / kChunk;
    EXPECT_EQ(messages[0]["count"], kMicroBatches * (kOfRows + 2 * kChunks) + 1);
    EXPECT_EQ(messages[0]["bytes"],
              kMicroBatches * kRows * (kOfRows * kHidden * kBytes + kBytes + 2 * 8) + 8);
  }
}

// CASES B040 in a tensor group; backward sums each recomputed layer's attention output again.
TEST(VerifyMore, Recomputation) {
  for (const char* family : {"llama", "gpt2"}) {
    const Folder folder;
    const std::string job = small_job(folder, family) + " --set training.dropout=0.5";
    expect_every_proof(job + " --set layout.recompute=every:2 --set numerics.compute=float64", 2);
    expect_every_proof(
        job + " --set layout.recompute=full --set layout.tensor=2 --set numerics.compute=float64", 4);
    expect_every_proof(job + " --set layout.recompute=selective --set layout.tensor=2", 2);
  }
}

TEST(VerifyMore, RecomputationRepeatsOneMessageALayer) {
  const Folder folder;
  const std::string job =
      "rehearse " + small_job(folder, "llama") + " --world 2 --json --set layout.tensor=2";
  const auto count = [&](const std::string& recompute) {
    const Outcome outcome = muster(job + " --set layout.recompute=" + recompute);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out)["messages"][0]["count"].get<int64_t>();
  };
  constexpr int64_t kLayers = 3, kMicroBatches = 4;
  EXPECT_EQ(count("full") - count("none"), kMicroBatches * kLayers);
  EXPECT_EQ(count("every:2") - count("none"), kMicroBatches * 2);
  EXPECT_EQ(count("selective"), count("none"));
}

TEST(VerifyMore, ABudgetThatIsTooSmallIsRefusedBeforeAnythingStarts) {
  const Folder folder;
  const std::string job = small_job(folder, "llama");
  for (const char* verb : {"train", "rehearse", "verify"}) {
    const Outcome outcome = muster(std::string(verb) + " " + job + " --set layout.recompute=budget:100");
    EXPECT_EQ(outcome.status, 2) << verb << outcome.err;
    EXPECT_NE(outcome.err.find("layout.recompute"), std::string::npos) << outcome.err;
  }
}

TEST(VerifyMore, TiedBiasedAndDropout) {
  const Folder folder;
  const std::string job = small_job(folder, "llama");
  for (const char* more : {"--set model.tie_word_embeddings=true", "--set model.attention_bias=true",
                           "--set training.dropout=0.2", "--set training.loss_chunk_tokens=7",
                           "--set training.bucket_bytes=20000", "--set optimizer.name=sgd"}) {
    const Outcome outcome = muster("verify " + job + " --procs 2 " + more);
    EXPECT_EQ(outcome.status, 0) << more << "\n" << outcome.out << outcome.err;
  }
}

TEST(VerifyMore, BucketsBecomeMessages) {
  const Folder folder;
  const std::string job = small_job(folder, "llama");
  const auto messages = [&](const std::string& more) {
    const Outcome outcome = muster("rehearse " + job + " --world 2 --json " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out)["messages"];
  };
  // One bucket and the sums of losses; then a bucket for each of the five units.
  EXPECT_EQ(messages("").at(0)["count"], 2);
  EXPECT_EQ(messages("--set training.bucket_bytes=1").at(0)["count"], 6);
  EXPECT_EQ(messages("")[0]["bytes"], messages("--set training.bucket_bytes=1")[0]["bytes"]);
}

}  // namespace
}  // namespace muster::test
