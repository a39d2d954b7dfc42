// `muster verify` where sequences are split over a context group: both methods, both families, in any
// composition with data and tensor parallelism and accumulation; packed documents; messages and memory in
// closed form.
#include <fmt/format.h>

#include <chrono>

#include "tests/ranks/proofs.h"

namespace muster::test {
namespace {

struct Layout {
  const char* family;
  const char* method;
  int context, data, tensor, accumulation;
  const char* dtype;
  const char* more = "";
};

std::string settings(const Layout& l) {
  const int batch = 12, micro = batch / l.data / l.accumulation;
  return fmt::format(
      " --set layout.context={} --set layout.context_method={} --set layout.data={} --set layout.tensor={} "
      "--set training.global_batch_size={} --set training.micro_batch_size={} --set numerics.compute={} {}",
      l.context, l.method, l.data, l.tensor, batch, micro, l.dtype, l.more);
}

// Every pair of two choices stands here at least once, where the head count allows it.
constexpr Layout kLayouts[] = {
    {"llama", "ring", 2, 1, 1, 1, "float64"},
    {"llama", "ring", 4, 2, 1, 3, "float32"},
    {"gpt2", "ring", 2, 2, 2, 3, "float64", "--set training.dropout=0.2"},
    {"gpt2", "ring", 4, 1, 2, 1, "float32", "--set layout.sequence_parallel=true"},
    {"llama", "ring", 4, 1, 2, 3, "float64",
     "--set layout.sequence_parallel=true --set training.dropout=0.2 --set layout.recompute=full"},
    {"gpt2", "ring", 4, 1, 1, 3, "float64", "--set data.document_end=7"},
    {"gpt2", "all_to_all", 2, 1, 1, 1, "float32"},
    {"gpt2", "all_to_all", 4, 2, 1, 3, "float64", "--set training.dropout=0.2"},
    {"llama", "all_to_all", 2, 2, 2, 1, "float64"},
    {"llama", "all_to_all", 4, 1, 1, 3, "float32"},  // two key heads for four ranks
    {"llama", "all_to_all", 2, 1, 2, 3, "float64",
     "--set layout.sequence_parallel=true --set layout.recompute=selective --set data.document_end=7"},
    {"llama", "ring", 2, 1, 2, 1, "float32", "--set data.document_end=7 --set training.dropout=0.2"},
    {"llama", "ring", 3, 1, 1, 1, "float64",
     "--set 'layout.order=[\"data\",\"context\",\"tensor\",\"pipeline\"]'"},
};

class VerifyContext : public ::testing::TestWithParam<Layout> {};

TEST_P(VerifyContext, EveryProofHolds) {
  const Layout& l = GetParam();
  const Folder folder;
  expect_every_proof(small_job(folder, l.family) + settings(l), l.context * l.data * l.tensor);
}

INSTANTIATE_TEST_SUITE_P(All, VerifyContext, ::testing::ValuesIn(kLayouts), [](const auto& info) {
  const Layout& l = info.param;
  return fmt::format("{}_{}_{}_c{}_d{}_t{}_a{}_{}", info.index, l.family, l.method, l.context, l.data,
                     l.tensor, l.accumulation, l.dtype);
});

Json rehearse(const std::string& command) {
  const Outcome outcome = muster("rehearse " + command + " --json");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Json::parse(outcome.out);
}

// By axis and kind: [count, bytes].
std::pair<int64_t, int64_t> message(const Json& rehearsal, const std::string& axis, const std::string& op) {
  for (const Json& total : rehearsal["messages"])
    if (total["axis"] == axis && total["op"] == op) return {total["count"], total["bytes"]};
  return {0, 0};
}

constexpr int64_t kLayers = 3, kBytes = 4, kRows = 2 * 24, kMicroBatches = 4, kHeadDim = 8;

// Keys and values make C - 1 hops in forward and as many in backward, and so do their gradients.
TEST(ContextMessages, TheRingHasAClosedForm) {
  const Folder folder;
  const std::string job = small_job(folder, "llama");  // two key heads
  for (const int64_t ranks : {2, 3, 4}) {
    const Json result = rehearse(fmt::format("{} --world {} --set layout.context={}", job, ranks, ranks));
    const int64_t hops = kMicroBatches * kLayers * 3 * (ranks - 1),
                  bytes = kRows / ranks * 2 * 2 * kHeadDim * kBytes;
    EXPECT_EQ(message(result, "context", "send"), std::pair(hops, hops * bytes)) << ranks;
    EXPECT_EQ(message(result, "context", "receive"), std::pair(hops, hops * bytes)) << ranks;
  }
}

// Queries, keys and values there and the output back, and their gradients the other way.
TEST(ContextMessages, TheAllToAllHasAClosedForm) {
  const Folder folder;
  const std::string job = small_job(folder, "llama") + " --set layout.context_method=all_to_all";
  for (const int64_t ranks : {2, 4}) {
    const Json result = rehearse(fmt::format("{} --world {} --set layout.context={}", job, ranks, ranks));
    const int64_t key_heads = std::max<int64_t>(2 / ranks, 1), width = (4 / ranks + 2 * key_heads) * kHeadDim;
    const int64_t bytes = 2 * (kRows * width + kRows / ranks * 4 * kHeadDim) * kBytes;
    EXPECT_EQ(message(result, "context", "all_to_all"),
              std::pair(kMicroBatches * kLayers * 4, kMicroBatches * kLayers * bytes))
        << ranks;
  }
}

// All ranks of a ring do the same work, and together that of one process: no score is computed twice.
TEST(ContextWork, IsSharedEvenly) {
  const Folder folder;
  const std::string job = small_job(folder, "llama");
  const double one = rehearse(job + " --world 1")["flops"]["hardware"];
  for (const char* method : {"ring", "all_to_all"})
    for (int rank = 0; rank < 4; ++rank) {
      const Json result =
          rehearse(fmt::format("{} --world 4 --rank {} --set layout.context=4 --set "
                               "layout.context_method={}",
                               job, rank, method));
      EXPECT_NEAR(result["flops"]["hardware"].get<double>() / (one / 4), 1, 1e-12) << method << rank;
    }
}

int64_t above_persistent(const Json& rehearsal) {
  int64_t bytes = rehearsal["peak_bytes"];
  for (const auto& [what, held] : rehearsal["persistent_bytes"].items()) bytes -= held.get<int64_t>();
  return bytes;
}

TEST(ContextMemory, A65536TokenSequenceIsSharedOut) {
  const Folder folder;
  const std::string job = small_job(folder, "llama") +
                          " --set data.sequence_length=65536 --set model.max_position_embeddings=65536 --set "
                          "training.global_batch_size=1 --set training.micro_batch_size=1";
  // The table of rotary angles is whole on every rank.
  const int64_t table = 2 * 65536 * (kHeadDim / 2) * kBytes;
  constexpr int64_t kSums = 2 * 8;
  const int64_t one = above_persistent(rehearse(job + " --world 1")) - table;
  for (const int64_t ranks : {2, 4}) {
    const int64_t part =
        above_persistent(rehearse(fmt::format("{} --world {} --set layout.context={}", job, ranks, ranks))) -
        table;
    std::printf("65,536 tokens over %ld: %ld bytes of one process's %ld\n", ranks, part, one);
    // Two fp64 sums of a step are whole on every rank; everything else at the peak is of tokens.
    EXPECT_EQ(part - kSums, (one - kSums) / ranks);
  }
}

TEST(ContextMemory, OneRankOf405BAt131072TokensIsRehearsedInSeconds) {
  const Folder folder;
  write_text(folder / "job.toml",
             "[model]\npreset = \"llama3.1-405b\"\n[data]\nsequence_length = 131072\n[training]\n"
             "global_batch_size = 8\nmicro_batch_size = 1\n[layout]\ndata = 8\ncontext = 16\ntensor = 8\n"
             "sequence_parallel = true\n");
  const auto start = std::chrono::steady_clock::now();
  const Json result = rehearse((folder / "job.toml").string() + " --rank 1000");
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("405B, 131,072 tokens, rank 1000 of 1024: %.2f s, peak %ld bytes\n", seconds,
              result["peak_bytes"].get<int64_t>());
  EXPECT_LT(seconds, 5);
  EXPECT_EQ(message(result, "context", "send").first, 126 * 3 * 15);
}

TEST(ContextRefusals, NameFieldRuleAndTheNearestLegalValue) {
  const Folder folder;
  const std::string job = small_job(folder, "llama");
  const auto refusal = [&](const std::string& more) {
    const Outcome outcome = muster("rehearse " + job + " --world 20 " + more);
    EXPECT_EQ(outcome.status, 2) << more;
    return outcome.err;
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const std::string ring = refusal("--set layout.context=5");
  EXPECT_TRUE(has(ring, "data.sequence_length = 24") && has(ring, "20 and 30 are the nearest")) << ring;
  const std::string swap = refusal(
      "--set layout.context=5 --set layout.context_method=all_to_all --set "
      "data.sequence_length=25 --set model.max_position_embeddings=25");
  EXPECT_TRUE(has(swap, "layout.context = 5") && has(swap, "context = 4 is the nearest")) << swap;
  const std::string end = refusal("--set data.document_end=64");
  EXPECT_TRUE(has(end, "data.document_end = 64")) << end;
}

}  // namespace
}  // namespace muster::test
