// `muster verify` over families, processes and accumulation: update, memory and messages.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>

#include "tests/ranks/proofs.h"

namespace muster::test {
namespace {

using Layout = std::tuple<const char*, int, int, const char*>;  // family, processes, micro-batch size, dtype

class VerifyLayouts : public ::testing::TestWithParam<Layout> {};

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

// Sums large enough to travel in runs of rows: in two messages, or in parts of one.
TEST(VerifyMore, LargeSumsTravelInRuns) {
  const Folder folder;
  const std::string job =
      small_job(folder, "llama") +
      " --set model.num_hidden_layers=2 --set model.hidden_size=256 --set "
      "data.sequence_length=512 --set model.max_position_embeddings=512 --set "
      "training.micro_batch_size=4 --set training.global_batch_size=4 --set layout.tensor=";
  const auto sums = [&](const std::string& more, const char* op) {
    const Outcome outcome = muster("rehearse " + job + more + " --json");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const Json rehearsal = Json::parse(outcome.out);
    for (const Json& message : rehearsal["messages"])
      if (message["op"] == op) return message["count"].get<int64_t>();
    return int64_t{0};
  };
  constexpr int64_t kLayers = 2, kLossAndNorm = 3;
  EXPECT_EQ(sums("2", "all_reduce"), 2 * 4 * kLayers + 2 + kLossAndNorm);
  EXPECT_EQ(sums("2 --set layout.sequence_parallel=true", "reduce_scatter"), 4 * kLayers + 2);
  for (const char* more : {"2", "2 --set layout.sequence_parallel=true",
                           "4 --set layout.sequence_parallel=true --set model.num_key_value_heads=4"}) {
    const Outcome outcome = muster("verify " + job + more);
    EXPECT_EQ(outcome.status, 0) << more << outcome.out << outcome.err;
  }
}

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

// family, data x tensor, micro-batches of 1 (accumulation 3 for 3 sequences a rank) and dtype; rows shared.
using SequenceLayout = std::tuple<const char*, std::pair<int, int>, std::pair<int, const char*>>;

class VerifySequenceParallel : public ::testing::TestWithParam<SequenceLayout> {};

TEST_P(VerifySequenceParallel, EveryProofHolds) {
  const auto& [family, mesh, work] = GetParam();
  const auto& [data, tensor] = mesh;
  const auto& [accumulation, dtype] = work;
  const Folder folder;
  expect_every_proof(
      small_job(folder, family) +
          fmt::format(
              " --set layout.tensor={} --set layout.sequence_parallel=true --set layout.data={} --set "
              "training.micro_batch_size=2 --set training.global_batch_size={} --set "
              "training.dropout=0.2 --set numerics.compute={}",
              tensor, data, 2 * data * accumulation, dtype),
      data * tensor);
}

INSTANTIATE_TEST_SUITE_P(
    All, VerifySequenceParallel,
    ::testing::Combine(::testing::Values("llama", "gpt2"),
                       ::testing::Values(std::pair(1, 2), std::pair(1, 4), std::pair(2, 2)),
                       ::testing::Values(std::pair(1, "float64"), std::pair(3, "float64"),
                                         std::pair(3, "float32"))));

TEST(VerifyMore, RowsSharedWithEverything) {
  const Folder folder;
  const std::string llama = small_job(folder, "llama") +
                            " --set layout.sequence_parallel=true --set layout.tensor=2 --set "
                            "numerics.compute=float64";
  for (const char* more :
       {"--set model.tie_word_embeddings=true --set training.loss_chunk_tokens=7",
        "--set training.micro_batch_size=1 --set model.attention_bias=true --set layout.recompute=full",
        "--set 'layout.order=[\"data\",\"tensor\",\"context\",\"pipeline\"]' --set layout.data=2 --set "
        "training.bucket_bytes=20000 --set layout.recompute=selective"}) {
    const Outcome outcome = muster("verify " + llama + " " + more);
    EXPECT_EQ(outcome.status, 0) << more << "\n" << outcome.out << outcome.err;
  }
}

// More ranks than key-value heads: neighbours share one. A vocabulary that does not divide: 67 ids on 4 ranks
// of 17, one of them padding; 65 leave three.
TEST(VerifyMore, SharedKeyHeadsAndAPaddedVocabulary) {
  const Folder folder, other;
  const std::string llama = small_job(folder, "llama") + " --set numerics.compute=float64",
                    gpt2 = small_job(other, "gpt2") + " --set numerics.compute=float64";
  for (const std::string& job :
       {llama + " --set layout.tensor=4",
        llama +
            " --set layout.tensor=4 --set model.num_key_value_heads=1 --set layout.sequence_parallel=true",
        llama + " --set layout.tensor=4 --set layout.data=2 --set model.attention_bias=true --set "
                "model.vocab_size=67 --set layout.sequence_parallel=true",
        llama + " --set layout.tensor=4 --set model.vocab_size=65 --set model.tie_word_embeddings=true",
        gpt2 + " --set layout.tensor=4 --set model.vocab_size=65"}) {
    const Outcome outcome = muster("verify " + job);
    EXPECT_EQ(outcome.status, 0) << job << "\n" << outcome.out << outcome.err;
  }
}

// Five ids over four ranks: two each, so that the last has none.
TEST(VerifyMore, ARankMayHoldNothingButPadding) {
  const Folder folder;
  const std::string job = small_job(folder, "llama") + " --set model.vocab_size=5 --set layout.tensor=4";
  std::string ids;
  for (int at = 0; at < 4000; ++at) ids += {static_cast<char>(at * 3 % 5), '\0'};
  write_text(folder / "tokens.bin", ids);
  expect_every_proof(job + " --set numerics.compute=float64", 4);
  expect_every_proof(job + " --set layout.sequence_parallel=true --set layout.zero=3", 8);
}

TEST(VerifyMore, PaddingIsListed) {
  const Folder folder;
  const Outcome outcome = muster("rehearse " + small_job(folder, "llama") +
                                 " --set layout.tensor=4 --set model.vocab_size=65 --all --json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json ranks = Json::parse(outcome.out)["ranks"];
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks[rank]["padding"].size(), 0u);
  ASSERT_EQ(ranks[3]["padding"].size(), 2u);
  EXPECT_EQ(ranks[3]["padding"][1]["parameter"], "lm_head.weight");
  EXPECT_EQ(ranks[3]["padding"][1]["elements"], 3 * 32);
}

// Where rows are shared, a reduce-scatter and an all-gather stand in the place of each of a layer's four
// all-reduces, and carry its bytes (Korthikanti et al. 2022, section 4.2.2); two more all-gathers a layer
// make the inputs of the column-parallel products again that are not kept. The embeddings are scattered and
// their gradient gathered; each chunk of the loss is gathered and its gradient scattered. Once a step one
// message sums the norms' gradients.
TEST(VerifyMore, SharedRowsHaveAClosedForm) {
  constexpr int64_t kLayers = 3, kHidden = 32, kRows = 2 * 24, kMicroBatches = 4, kBytes = 4;
  const Folder llama, gpt2;
  for (const bool is_gpt2 : {false, true}) {
    const std::string job = is_gpt2 ? small_job(gpt2, "gpt2") : small_job(llama, "llama");
    const Outcome outcome = muster("rehearse " + job + " --json --set layout.tensor=2 --set " +
                                   "layout.sequence_parallel=true --set training.loss_chunk_tokens=20");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    std::map<std::string, std::pair<int64_t, int64_t>> totals;
    const Json messages = Json::parse(outcome.out)["messages"];
    for (const Json& message : messages) totals[message["op"]] = {message["count"], message["bytes"]};
    constexpr int64_t kWhole = kRows * kHidden * kBytes, kChunks = 3;  // of 16 rows
    EXPECT_EQ(totals["reduce_scatter"].first, kMicroBatches * (4 * kLayers + 1 + kChunks));
    EXPECT_EQ(totals["reduce_scatter"].second, kMicroBatches * (4 * kLayers + 1 + 1) * kWhole);
    EXPECT_EQ(totals["all_gather"].first, kMicroBatches * (6 * kLayers + 1 + kChunks));
    EXPECT_EQ(totals["all_gather"].second, kMicroBatches * (6 * kLayers + 1 + 1) * kWhole);
    const int64_t partial = is_gpt2 ? (6 * kLayers + 2 + 64) * kHidden : (2 * kLayers + 1) * kHidden;
    EXPECT_EQ(totals["all_reduce"].first, kMicroBatches * 2 * kChunks + 1 + 1);
    EXPECT_EQ(totals["all_reduce"].second, kMicroBatches * kRows * (kBytes + 2 * 8) + partial * kBytes + 8);
  }
}

// What a layer keeps between forward and backward, in elements (docs/parallelism.md): the stream before each
// half and the norms' statistics, on all ranks or shared by them; the outputs of the column-parallel
// products, attention's output and one logarithm a query, split.
TEST(VerifyMore, KeptActivationsHaveAClosedForm) {
  constexpr int64_t kHidden = 32, kRows = 2 * 24, kBytes = 4, kHeads = 4;
  const auto peak_of = [](const std::string& job, const std::string& more) {
    const Outcome outcome = muster("rehearse " + job + " --json --set training.global_batch_size=2 " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    const Json result = Json::parse(outcome.out);
    int64_t bytes = result["peak_bytes"];
    for (const auto& [kind, persistent] : result["persistent_bytes"].items())
      bytes -= persistent.get<int64_t>();
    return bytes;
  };
  const Folder llama, gpt2;
  for (const bool is_gpt2 : {false, true})
    for (const int64_t tensor : {1, 2, 4})
      for (const bool shared : {false, true}) {
        if (shared && tensor == 1) continue;
        const std::string job =
            (is_gpt2 ? small_job(gpt2, "gpt2") : small_job(llama, "llama")) +
            fmt::format(" --set layout.tensor={} --set layout.sequence_parallel={}{}", tensor, shared,
                        is_gpt2 ? "" : " --set model.num_key_value_heads=4");
        const int64_t layer =
            peak_of(job, "--set model.num_hidden_layers=9") - peak_of(job, "--set model.num_hidden_layers=8");
        const int64_t statistics = is_gpt2 ? 2 : 1, up = is_gpt2 ? 4 * kHidden : 2 * 48;
        const int64_t stream = 2 * (kHidden + statistics), split = 3 * kHidden + kHidden + kHeads + up;
        EXPECT_EQ(layer, kBytes * kRows * stream / (shared ? tensor : 1) + kBytes * kRows * split / tensor)
            << is_gpt2 << " " << tensor << " " << shared;
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
