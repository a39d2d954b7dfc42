// `muster verify` over families, processes and accumulation: update, memory and messages.
#include <gtest/gtest.h>

#include "tests/program.h"

namespace muster::test {
namespace {

using Layout = std::tuple<const char*, int, int, const char*>;  // family, processes, micro-batch size, dtype

class VerifyLayouts : public ::testing::TestWithParam<Layout> {};

TEST_P(VerifyLayouts, EveryProofHolds) {
  const auto [family, procs, micro_batch_size, dtype] = GetParam();
  const Folder folder;
  const Outcome outcome =
      muster("verify " + small_job(folder, family) + " --json --procs " + std::to_string(procs) +
             " --set training.micro_batch_size=" + std::to_string(micro_batch_size) +
             " --set numerics.compute=" + dtype);
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

INSTANTIATE_TEST_SUITE_P(All, VerifyLayouts,
                         ::testing::Combine(::testing::Values("llama", "gpt2"), ::testing::Values(1, 2, 4),
                                            ::testing::Values(1, 2),
                                            ::testing::Values("float32", "float64")));

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
