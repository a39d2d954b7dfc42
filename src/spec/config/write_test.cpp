#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "spec/config/testing.h"

namespace muster::spec {
namespace {

using testing::HasSubstr;

TEST(Write, TheEffectiveJobParsesBackToItself) {
  const Job job = small_job(
      "rope_scaling = { rope_type = 'llama3', factor = 8 }\n[[data.sources]]\npath = 'a \"b\" \\ c'\nweight "
      "= 0.1\n",
      {"optimizer.learning_rate=0.1234567890123456", "optimizer.name=sgd", "optimizer.momentum=0.9",
       "training.evaluate_every=3", "data.validation_path=v", "training.seed=9223372036854775807",
       "optimizer.schedule=constant"});
  const Job back = parse_job(effective_toml(job), "run/job.toml");
  EXPECT_EQ(values_of(back), values_of(job));
}

TEST(Write, B095_TheEffectiveJobSaysWhereEachValueCameFrom) {
  const std::string text = effective_toml(small_job("[training]\nsteps = 7\n", {"training.seed=3"}));
  EXPECT_THAT(text, HasSubstr("steps = 7  # file job.toml:9\n"));
  EXPECT_THAT(text, HasSubstr("seed = 3  # command line\n"));
  EXPECT_THAT(text, HasSubstr("log_every = 1  # default\n"));
  EXPECT_THAT(text, HasSubstr("# context_method = \"ring\"  # no effect: layout.context is 1\n"));
}

TEST(Write, APresetsJobStandsAlone) {
  const Job job = parse_job("[model]\npreset = 'gpt2-124m'\n", "job.toml");
  EXPECT_EQ(values_of(parse_job(effective_toml(job), "job.toml")), values_of(job));
}

TEST(Write, TheManualIsFresh) {
  EXPECT_TRUE(read_text(SOURCE_ROOT "/docs/job.md") == keys_markdown())
      << "docs/job.md is stale; make it again: build/muster doctor --keys > docs/job.md";
}

TEST(Write, TheManualHasEveryKey) {
  const std::string manual = keys_markdown();
  for (const Field& field : fields()) {
    EXPECT_THAT(manual, HasSubstr(fmt::format("| `{}` |", field.key)));
    EXPECT_FALSE(field.doc.empty()) << field.name();
  }
}

}  // namespace
}  // namespace muster::spec
