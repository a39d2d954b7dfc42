// Wrong requests: one clear message for each thing wrong, all together, exit status 2, nothing started.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/program.h"

namespace muster::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

void expect_refused(const Outcome& outcome, const ::testing::Matcher<std::string>& message) {
  EXPECT_EQ(outcome.status, 2) << outcome.err;
  EXPECT_THAT(outcome.err, message);
  EXPECT_THAT(outcome.err, Not(HasSubstr("rank 0")));  // no process group existed
}

TEST(BadInput, SeveralAtOnce) {
  const Folder folder;
  const std::string job = small_job(folder, "llama", "gradient_cliping = 1.0\n");
  expect_refused(
      muster("train " + job + " --procs 3 --set model.num_attention_heads=5 --set data.path=absent.bin"),
      AllOf(HasSubstr("gradient_cliping"), HasSubstr("num_attention_heads")));
}

TEST(BadInput, MisspeltKeyNamesTheRightOne) {
  const Folder folder;
  const std::string job = small_job(folder, "llama", "[optimizer]\ngradient_cliping = 1.0\n");
  expect_refused(muster("train " + job),
                 AllOf(HasSubstr("optimizer.gradient_cliping"), HasSubstr("gradient_clip")));
}

TEST(BadInput, BatchThatDoesNotDivide) {
  const Folder folder;
  expect_refused(muster("train " + small_job(folder, "llama") + " --procs 3"),
                 AllOf(HasSubstr("global_batch_size"), HasSubstr("8")));
}

TEST(BadInput, MissingAndTruncatedData) {
  const Folder folder;
  const std::string job = small_job(folder, "llama");
  expect_refused(muster("train " + job + " --procs 2 --set data.path=" + (folder / "absent.bin").string()),
                 AllOf(HasSubstr("data.path"), HasSubstr("absent.bin")));
  write_text(folder / "odd.bin", "abc");
  expect_refused(muster("train " + job + " --set data.path=" + (folder / "odd.bin").string()),
                 HasSubstr("odd.bin"));
  write_text(folder / "short.bin", std::string(2 * 24, '\0'));
  expect_refused(muster("train " + job + " --set data.path=" + (folder / "short.bin").string()),
                 AllOf(HasSubstr("short.bin"), HasSubstr("24")));
}

TEST(BadInput, IdOutsideTheVocabulary) {
  const Folder folder;
  const std::string job = small_job(folder, "llama");
  std::string ids = read_text(folder / "tokens.bin");
  ids[2 * 1234] = 64;  // ids are 0 to 63
  write_text(folder / "tokens.bin", ids);
  expect_refused(muster("train " + job + " --procs 2"), AllOf(HasSubstr("64"), HasSubstr("1234")));
}

TEST(BadInput, SafetensorsHeaderThatLies) {
  const Folder folder;
  const std::string job = small_job(folder, "llama");
  std::string file(8, '\0');
  file[7] = 0x7f;  // a header of 2^62 bytes
  write_text(folder / "weights.safetensors", file + "{}");
  expect_refused(muster("train " + job + " --set model.weights=" + (folder / "weights.safetensors").string()),
                 HasSubstr("weights.safetensors"));
}

TEST(BadInput, RunFolderThatHoldsARun) {
  const Folder folder;
  const std::string job = small_job(folder, "llama"), run_folder = (folder / "run").string();
  ASSERT_EQ(muster("train " + job + " --run " + run_folder).status, 0);
  const std::string before = read_text(folder / "run/metrics.jsonl");
  expect_refused(muster("train " + job + " --run " + run_folder), HasSubstr("--run"));
  EXPECT_EQ(read_text(folder / "run/metrics.jsonl"), before);
}

TEST(BadInput, NoSuchVerbOrJob) {
  EXPECT_EQ(muster("trian job.toml").status, 2);
  expect_refused(muster("train /absent/job.toml"), HasSubstr("/absent/job.toml"));
}

}  // namespace
}  // namespace muster::test
