// What a run's checkpoints serve for beside going on from them: they are compared, start another training,
// are exported and sampled, whatever layout wrote them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/program.h"

namespace muster::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTensor = " --procs 4 --set layout.tensor=2 --set layout.zero=2";
constexpr const char* kSharded = " --procs 2 --set layout.zero=3";

// Six steps in float64, a checkpoint every second.
class CheckpointWeights : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string checkpoint(const std::string& run, int step) const {
    return path(fmt::format("{}/checkpoints/step-{:08}.g1", run, step));
  }
  Outcome train(const std::string& name, const std::string& more) const {
    return muster("train " + job_ + " --run " + path(name) + more);
  }
  Json inspect(const std::string& a, const std::string& b, int status) const {
    const Outcome outcome = muster(fmt::format("inspect {} {} --json", a, b));
    EXPECT_EQ(outcome.status, status) << outcome.err;
    return Json::parse(outcome.out.empty() ? "null" : outcome.out);
  }
  std::string weights(const std::string& folder) const {
    return read_text(folder_ / (folder + "/model.safetensors"));
  }

  Folder folder_;
  std::string job_ = small_job(folder_, "llama", "[checkpoint]\nevery = 2\nkeep = 3\n") +
                     " --set numerics.compute=float64 --set checkpoint.async=false";
};

TEST_F(CheckpointWeights, OfOneRunAreComparedAcrossLayouts) {
  ASSERT_EQ(train("one", "").status, 0);
  fs::copy(folder_ / "one", folder_ / "two", fs::copy_options::recursive);
  fs::remove_all(checkpoint("two", 6));
  // The same state under another layout: resumed from step 4 and, with nothing learnt, saved as step 6.
  const std::string at_rest = " --set optimizer.learning_rate=0 --set optimizer.weight_decay=0";
  ASSERT_EQ(train("still", at_rest).status, 0);
  ASSERT_EQ(train("still2", at_rest + kTensor).status, 0);

  const Json same = inspect(checkpoint("one", 4), checkpoint("two", 4), 0);
  EXPECT_EQ(same["equal"], true);
  EXPECT_EQ(same["tensors"].size(), 0u);
  EXPECT_EQ(same["tensors_equal"], 3 * 30);

  const Json moved = inspect(checkpoint("one", 2), checkpoint("one", 4), 1);
  EXPECT_EQ(moved["equal"], false);
  EXPECT_EQ(moved["a"]["step"], 2);
  EXPECT_EQ(moved["b"]["next_sample"], 32);
  EXPECT_EQ(moved["counters"][0], (Json{{"key", "optimizer.updates"}, {"a", 2}, {"b", 4}}));
  EXPECT_TRUE(moved["job"].empty());
  EXPECT_EQ(moved["tensors"].size(), 90u);

  // Parameters are those of the start in both; Adam's moments are sums in another order.
  const Json crossed = inspect(checkpoint("still", 4), checkpoint("still2", 4), 1);
  std::set<std::string> keys;
  for (const Json& key : crossed["job"]) keys.insert(key["key"]);
  EXPECT_TRUE(keys.contains("layout.tensor") && keys.contains("layout.zero"));
  EXPECT_NE(crossed["a"]["layout"], crossed["b"]["layout"]);
  EXPECT_GE(crossed["tensors_equal"], 30);
  for (const Json& tensor : crossed["tensors"]) {
    EXPECT_THAT(tensor["name"].get<std::string>(), HasSubstr("optimizer."));
    EXPECT_LT(tensor["max_absolute"], 1e-12);
    EXPECT_GT(tensor["differing"], 0);
    EXPECT_EQ(tensor["first"].size(), tensor["a"]["shape"].size());
  }
  const Outcome text = muster("inspect " + checkpoint("still", 4) + " " + checkpoint("still2", 4));
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.out, HasSubstr("tensors are equal to the bit"));
  EXPECT_THAT(text.out, HasSubstr("layout.tensor"));
}

// What is seen is what is there: one element of one tensor of one shard.
TEST_F(CheckpointWeights, AWrongRequestOrADamagedSideIsNoDifference) {
  ASSERT_EQ(train("one", "").status, 0);
  EXPECT_EQ(muster("inspect " + checkpoint("one", 2) + " " + path("absent")).status, 2);
  EXPECT_EQ(muster("inspect " + checkpoint("one", 2) + " " + path("one")).status, 2);
  fs::resize_file(fs::path(checkpoint("one", 4)) / "MANIFEST.json", 20);
  const Outcome damaged = muster("inspect " + checkpoint("one", 2) + " " + checkpoint("one", 4));
  EXPECT_EQ(damaged.status, 2);
  EXPECT_THAT(damaged.err, HasSubstr("COMMIT: does not fit"));
}

// CASES B024: the old one by name gives the old one, whatever is newer, and says so.
TEST_F(CheckpointWeights, B024_AnOldOneStartsATrainingUnderAnyLayout) {
  ASSERT_EQ(train("first", kTensor).status, 0);
  ASSERT_EQ(muster("convert " + checkpoint("first", 2) + " " + path("exported")).status, 0);
  // Weights as a run without a learning rate leaves them.
  const std::string still = " --set optimizer.learning_rate=0 --set training.steps=1 --set model.weights=";
  for (const char* layout : {"", kSharded, kTensor}) {
    const std::string run = fmt::format("second{}", std::string(layout).size());
    const Outcome started = train(run, still + checkpoint("first", 2) + layout);
    ASSERT_EQ(started.status, 0) << started.err;
    EXPECT_THAT(started.err,
                HasSubstr("starts from the weights of " + checkpoint("first", 2) + " (manifest "));
    EXPECT_EQ(weights(run + "/weights"), weights("exported")) << layout;
  }
  EXPECT_EQ(inspect(checkpoint("first", 2), path("exported"), 0)["equal"], true);
  const Json other = inspect(checkpoint("first", 4), path("exported"), 1);
  EXPECT_EQ(other["tensors"].size(), 30u);
  EXPECT_TRUE(other["only_in_a"].empty()) << "parameters alone are compared with published weights";

  const Outcome sampled =
      muster("sample " + checkpoint("first", 2) + " --prompt abc --tokenizer bytes --tokens 3");
  EXPECT_EQ(sampled.status, 2);  // ids up to 255, and the model has 64
  EXPECT_THAT(sampled.err, HasSubstr("gives ids up to 255, and the model has 64"));
}

// The weights at the end of a run are those of its last checkpoint.
TEST_F(CheckpointWeights, AnExportIsWhatTheRunWritesItself) {
  for (const std::string family : {"llama", "gpt2"}) {
    const std::string job = small_job(folder_, family, "[checkpoint]\nevery = 3\n");
    for (const char* layout : {kSharded, kTensor}) {
      const std::string name = family + std::to_string(std::string(layout).size());
      ASSERT_EQ(muster("train " + job + " --run " + path(name) + layout).status, 0);
      const Outcome out =
          muster("convert " + checkpoint(name, 6) + " " + path(name + "-out") + " --max-shard-size \"5 GB\"");
      ASSERT_EQ(out.status, 0) << out.err;
      EXPECT_EQ(weights(name + "-out"), weights(name + "/weights"));
      EXPECT_EQ(read_text(folder_ / (name + "-out/config.json")),
                read_text(folder_ / (name + "/weights/config.json")));
    }
  }
}

}  // namespace
}  // namespace muster::test
