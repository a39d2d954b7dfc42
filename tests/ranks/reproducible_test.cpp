// The same job gives the same bits: run twice, and with other log and evaluation steps (CASES B023).
#include <gtest/gtest.h>

#include "tests/program.h"

namespace muster::test {
namespace {

struct Bits {
  std::string weights;
  std::vector<double> losses, norms;
  bool operator==(const Bits&) const = default;
};

Bits train(const Folder& folder, const std::string& job, const std::string& name, const std::string& more) {
  const fs::path run_folder = folder / name;
  const Outcome outcome = muster("train " + job + " --run " + run_folder.string() + " " + more);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  Bits bits{read_text(run_folder / "weights/model.safetensors"), {}, {}};
  for (const Json& step : read_metrics(run_folder)) {
    bits.losses.push_back(step["loss"]);
    bits.norms.push_back(step["grad_norm"]);
  }
  return bits;
}

constexpr const char* kValidation = "--set data.validation_fraction=0.2 --set training.dropout=0.1";

TEST(Reproducible, TwoRunsAreBitwiseEqual) {
  for (const char* family : {"llama", "gpt2"})
    for (const char* procs : {"1", "2"}) {
      const Folder folder;
      const std::string job = small_job(folder, family),
                        more = std::string(kValidation) + " --procs " + procs;
      const Bits first = train(folder, job, "a", more);
      EXPECT_EQ(first.losses.size(), 6u);
      EXPECT_EQ(first, train(folder, job, "b", more));
      EXPECT_NE(first, train(folder, job, "c", more + " --set training.seed=2"));
    }
}

TEST(Reproducible, B023_EvaluationAndLoggingChangeNothing) {
  for (const char* procs : {"1", "2"}) {
    const Folder folder;
    const std::string job = small_job(folder, "llama"),
                      more = std::string(kValidation) + " --set training.steps=10 --procs " + procs;
    const Bits never = train(folder, job, "never", more);
    EXPECT_EQ(never, train(folder, job, "every2", more + " --set training.evaluate_every=2"));
    EXPECT_EQ(never, train(folder, job, "log5", more + " --set training.log_every=5"));
    EXPECT_TRUE(read_metrics(folder / "every2")[1]["validation_loss"].is_number());
    EXPECT_TRUE(read_metrics(folder / "every2")[2]["validation_loss"].is_null());
  }
}

TEST(Reproducible, TheNumberOfThreadsChangesNothing) {
  const Folder folder;
  const std::string job = small_job(folder, "llama");
  EXPECT_EQ(train(folder, job, "one", ""), train(folder, job, "two", "--set training.threads=2"));
}

// Two ranks have one order of sums, and with one reduction a step micro-batches are added before it in every
// stage; without clipping no sum of pieces reaches the update. (Of more ranks an all-reduce adds in another
// order than a reduce-scatter, and stages 2 and 3 by themselves reduce before they add micro-batches.)
TEST(Reproducible, StagesOfShardingGiveTheSameBits) {
  const Folder folder;
  const std::string job = small_job(folder, "llama", "[optimizer]\ngradient_clip = 0.0\n"),
                    more = "--set training.dropout=0.1 --procs 2 --set layout.zero=";
  const Bits whole = train(folder, job, "0", more + "0");
  for (const char* stage : {"1", "2 --set layout.reduce_every=step", "3 --set layout.reduce_every=step"}) {
    const Bits shared = train(folder, job, std::string(1, stage[0]), more + stage);
    EXPECT_EQ(shared.losses, whole.losses) << stage;
    EXPECT_TRUE(shared.weights == whole.weights) << stage;
  }
}

// CASES B013: every layout starts from the bits of one process.
TEST(Reproducible, B013_FirstBitsDoNotDependOnTheLayout) {
  const Folder folder;
  const std::string job = small_job(
      folder, "llama", "[optimizer]\nlearning_rate = 1e-30\nweight_decay = 0.0\nschedule = \"constant\"\n");
  const Bits one = train(folder, job, "one", "--set training.steps=1");
  EXPECT_EQ(one.weights, train(folder, job, "two", "--set training.steps=1 --procs 2").weights);
  EXPECT_EQ(one.weights, train(folder, job, "four", "--set training.steps=1 --procs 4").weights);
  EXPECT_EQ(one.weights,
            train(folder, job, "tensor", "--set training.steps=1 --set layout.tensor=2 --procs 4").weights);
  EXPECT_NE(one.weights, train(folder, job, "seed", "--set training.steps=1 --set training.seed=3").weights);
}

// CASES B085: parts that are read from a file and gathered into another are what they were.
TEST(Reproducible, B085_WeightsGoThroughATensorGroupUnchanged) {
  for (const char* family : {"llama", "gpt2"}) {
    const Folder folder;  // a rate that is 0 in fp32: biases of 0 would keep any other
    const std::string job = small_job(
        folder, family,
        "[optimizer]\nname = \"sgd\"\nlearning_rate = 1e-60\nweight_decay = 0.0\nschedule = \"constant\"\n");
    const Bits one = train(folder, job, "one", "--set training.seed=5 --set training.steps=1");
    const std::string from =
        "--set training.steps=1 --set model.weights=" + (folder / "one/weights").string();
    EXPECT_EQ(one.weights, train(folder, job, "two", from + " --set layout.tensor=2").weights) << family;
  }
}

}  // namespace
}  // namespace muster::test
