#include "data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "data/testing.h"

namespace muster::data {
namespace {

using ::testing::HasSubstr;

std::vector<int32_t> sample_of(const Dataset& dataset, int64_t sample) {
  std::vector<int32_t> ids(static_cast<size_t>(dataset.sequence_length()) + 1);
  dataset.fill(sample, ids);
  return ids;
}

template <class Id>
std::vector<Id> counting(int64_t ids) {
  std::vector<Id> all(static_cast<size_t>(ids));
  for (size_t at = 0; at < all.size(); ++at) all[at] = static_cast<Id>(at);
  return all;
}

class DatasetTest : public TempFolder {};

TEST_F(DatasetTest, SequentialWindowsOverlapByOne) {
  write_ids("ids.bin", counting<uint16_t>(30));
  const Dataset dataset = Dataset::open_training(job("ids.bin", "uint16", 7));
  EXPECT_EQ(dataset.windows(), 4);  // (30 - 1) / 7
  EXPECT_EQ(sample_of(dataset, 0), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(sample_of(dataset, 3), (std::vector<int32_t>{21, 22, 23, 24, 25, 26, 27, 28}));
  EXPECT_EQ(sample_of(dataset, 5), sample_of(dataset, 1));
}

TEST_F(DatasetTest, TextWithBytesNeedsNoCopy) {
  write("a.txt", "hello, wörld");
  const Dataset dataset = Dataset::open_training(job("a.txt", "text", 3));
  EXPECT_EQ(dataset.vocabulary(), 256);
  EXPECT_EQ(sample_of(dataset, 2), (std::vector<int32_t>{' ', 'w', 0xC3, 0xB6}));
}

TEST_F(DatasetTest, LongSequencesAreReadInPieces) {
  write_ids("ids.bin", counting<uint32_t>(20001));
  const std::vector<int32_t> ids = sample_of(Dataset::open_training(job("ids.bin", "uint32", 20000)), 0);
  for (int32_t at = 0; at <= 20000; ++at) ASSERT_EQ(ids[static_cast<size_t>(at)], at);
}

TEST_F(DatasetTest, ValidationIsTheEndAndIsNeverTrainedOn) {
  write_ids("ids.bin", counting<uint16_t>(101));
  spec::Job split = job("ids.bin", "uint16", 10);
  split.data.order = "shuffled";
  split.data.validation_fraction = 0.25;
  const Dataset training = Dataset::open_training(split);
  const std::optional<Dataset> validation = Dataset::open_validation(split);
  ASSERT_TRUE(validation);
  EXPECT_EQ(training.windows(), 7);
  EXPECT_EQ(validation->windows(), 3);
  std::set<int32_t> trained;
  for (int64_t sample = 0; sample < 70; ++sample) trained.insert(sample_of(training, sample).front());
  EXPECT_EQ(trained, (std::set<int32_t>{0, 10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(sample_of(*validation, 0).front(), 70);
  EXPECT_EQ(sample_of(*validation, 4), sample_of(*validation, 1));
  EXPECT_FALSE(Dataset::open_validation(job("ids.bin", "uint16", 10)));
}

TEST_F(DatasetTest, B074ASmallSetOfAMixtureIsDrawnAgainInNewEpochs) {
  write_ids("a.bin", counting<uint16_t>(101));
  write_ids("b.bin", std::vector<uint16_t>(101, 999));
  spec::Job mixed = job("", "uint16", 10);
  mixed.data.order = "shuffled";
  mixed.data.sources = {{file("b.bin").string(), 0.001, 0}, {file("a.bin").string(), 0.999, 0}};
  const Dataset dataset = Dataset::open_training(mixed);
  EXPECT_EQ(dataset.windows(), 20);
  std::map<int32_t, int> drawn;
  for (int64_t sample = 0; sample < 1000; ++sample) ++drawn[sample_of(dataset, sample).front()];
  EXPECT_EQ(drawn[999], 1);
  for (int32_t window = 0; window < 10; ++window) EXPECT_NEAR(drawn[window * 10], 99.9, 0.91) << window;
}

std::string problems_of(const spec::Job& job) {
  Problems problems;
  check(job, problems);
  std::string text;
  for (const Problem& problem : problems.list()) text += to_string(problem) + "\n";
  return text;
}

TEST_F(DatasetTest, CheckNamesTheFirstIdOutsideTheVocabulary) {
  std::vector<uint16_t> ids(3'000'000, 511);
  write_ids("ids.bin", ids);
  spec::Job request = job("ids.bin", "uint16", 10);
  request.model.vocab_size = 512;
  EXPECT_EQ(problems_of(request), "");
  ids[2'345'678] = 512;
  ids[2'345'679] = 600;
  write_ids("ids.bin", ids);
  EXPECT_THAT(problems_of(request), HasSubstr("id 512 at position 2345678"));
}

TEST_F(DatasetTest, CheckFindsEverythingTogether) {
  write("short.txt", "too short");
  spec::Job request = job("short.txt", "text", 128);
  request.model.vocab_size = 100;
  request.data.validation_path = file("nowhere.txt").string();
  const std::string problems = problems_of(request);
  EXPECT_THAT(problems, HasSubstr("holds 9 ids: too few for one sequence of data.sequence_length + 1 = 129"));
  EXPECT_THAT(problems, HasSubstr("model.vocab_size = 100: the tokenizer bytes gives ids up to 255"));
  EXPECT_THAT(problems, HasSubstr("there is no such file"));
}

TEST_F(DatasetTest, CheckRefusesACutFile) {
  write("ids.bin", "12345");
  EXPECT_THAT(problems_of(job("ids.bin", "uint16", 1)), HasSubstr("holds 5 bytes, no multiple of 2"));
}

}  // namespace
}  // namespace muster::data
