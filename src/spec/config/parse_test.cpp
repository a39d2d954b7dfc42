#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "spec/config/testing.h"

namespace muster::spec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// A variable of the environment for the length of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Parse, ReadsTheReferenceJob) {
  const std::string path = SOURCE_ROOT "/../shared/reference/A/job.toml";
  ASSERT_TRUE(fs::exists(path)) << path << " is missing: put shared/ beside the checkout";
  const Job job = load_job(path);
  EXPECT_EQ(job.model.family, Family::llama);
  EXPECT_EQ(job.model.vocab_size, 512);
  EXPECT_EQ(job.model.num_key_value_heads, 2);
  EXPECT_EQ(job.model.head_dim, 16);
  EXPECT_EQ(job.model.norm_eps, 1e-5);
  EXPECT_FALSE(job.model.tie_word_embeddings);
  EXPECT_EQ(job.data.format, "uint16");
  EXPECT_EQ(job.data.order, "sequential");
  EXPECT_EQ(job.training.micro_batch_size, 2);
  EXPECT_EQ(job.optimizer.learning_rate, 3e-4);
  EXPECT_THAT(job.optimizer.betas, ElementsAre(0.9, 0.95));
  EXPECT_EQ(job.optimizer.weight_decay_on, "all");
  EXPECT_EQ(job.optimizer.schedule, "constant");
  EXPECT_TRUE(fs::exists(job.weights)) << job.weights;
  EXPECT_TRUE(fs::exists(job.data.path)) << job.data.path;
  EXPECT_THAT(job.origins.at("model.head_dim"), HasSubstr("follows"));
  EXPECT_EQ(job.origins.at("training.steps"), "file " + path + ":22");
  EXPECT_EQ(job.origins.at("layout.zero"), "default");
}

TEST(Parse, ExampleJobsAreRight) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(SOURCE_ROOT "/configs/jobs")) {
    EXPECT_NO_THROW(load_job(entry.path())) << entry.path();
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST(Parse, ReadsGpt2sOwnNames) {
  const Job job = parse_job(
      "[model]\nfamily='gpt2'\nvocab_size=300\nn_embd=32\nn_layer=2\nn_head=4\nn_positions=256\n"
      "n_inner=64\nlayer_norm_epsilon=1e-6\n",
      "job.toml");
  EXPECT_EQ(job.model.hidden_size, 32);
  EXPECT_EQ(job.model.num_hidden_layers, 2);
  EXPECT_EQ(job.model.num_attention_heads, 4);
  EXPECT_EQ(job.model.max_position_embeddings, 256);
  EXPECT_EQ(job.model.intermediate_size, 64);
  EXPECT_EQ(job.model.norm_eps, 1e-6);
  EXPECT_EQ(job.origins.at("model.hidden_size"), "file job.toml:4");
}

TEST(Parse, MuonHasMomentumUnlessGiven) {
  const auto optimizer = [](const std::string& text) {
    return parse_job("[model]\npreset='gpt2-124m'\n[optimizer]\n" + text, "job.toml").optimizer;
  };
  EXPECT_EQ(optimizer("name='muon'\n").momentum, 0.95);
  EXPECT_EQ(optimizer("name='muon'\nmomentum=0.8\n").momentum, 0.8);
  EXPECT_EQ(optimizer("name='sgd'\n").momentum, 0);
}

TEST(Parse, RefusesTwoNamesOfOneKey) {
  const auto problems = problems_of("n_embd = 64\n");
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_THAT(problems[0].rule, HasSubstr("another name of"));
}

TEST(Parse, ReadsRopeScaling) {
  const Job job = small_job("rope_scaling = { rope_type = 'llama3', factor = 8.0, high_freq_factor = 5 }\n");
  EXPECT_EQ(job.model.rope_scaling.type, "llama3");
  EXPECT_EQ(job.model.rope_scaling.factor, 8);
  EXPECT_EQ(job.model.rope_scaling.high_freq_factor, 5);
  EXPECT_EQ(job.model.rope_scaling.original_max_position_embeddings, 8192);
  EXPECT_THAT(problems_of("rope_scaling = { rope_type = 'yarn' }\n"), SizeIs(1));
  EXPECT_THAT(problems_of("rope_scaling = { rope_type = 'linear', low_freq_factor = 1 }\n"), SizeIs(1));
  EXPECT_THAT(problems_of("rope_scaling = 8\n"), SizeIs(1));
}

TEST(Parse, ReadsSourcesOfAMixture) {
  const Job job = small_job(
      "[[data.sources]]\npath='a.txt'\nweight=3\n[[data.sources]]\npath='/b.txt'\nfrom_sample=100\n");
  ASSERT_THAT(job.data.sources, SizeIs(2));
  EXPECT_EQ(job.data.sources[0].path, (fs::current_path() / "a.txt").string());
  EXPECT_EQ(job.data.sources[0].weight, 3);
  EXPECT_EQ(job.data.sources[1].path, "/b.txt");
  EXPECT_EQ(job.data.sources[1].from_sample, 100);
  EXPECT_THAT(problems_of("[[data.sources]]\nweight=3\n"), SizeIs(1));
  EXPECT_THAT(problems_of("[[data.sources]]\npath='a'\nweight=-3\n"), SizeIs(1));
  EXPECT_THAT(problems_of("[[data.sources]]\npath='a'\nwieght=3\n"), SizeIs(1));
}

TEST(Parse, PathsStartFromTheFileOrFromTheCurrentFolder) {
  const std::string text = std::string(kSmallModel) + "[data]\npath='corpus.txt'\n";
  EXPECT_EQ(parse_job(text, "/jobs/job.toml").data.path, "/jobs/corpus.txt");
  EXPECT_EQ(parse_job(text, "/jobs/job.toml", {"data.path=other.txt"}).data.path,
            (fs::current_path() / "other.txt").string());
  EXPECT_EQ(parse_job(text, "/jobs/job.toml", {"data.tokenizer=../t/tokenizer.json"}).data.tokenizer,
            (fs::current_path().parent_path() / "t/tokenizer.json").string());
  EXPECT_EQ(parse_job(text, "/jobs/job.toml").data.tokenizer, "bytes");
}

TEST(Parse, APresetFillsTheModelAndKeysChangeIt) {
  const Job job =
      parse_job("[model]\npreset='gpt2-124m'\nnum_attention_heads=6\nhidden_size=96\n", "job.toml");
  EXPECT_EQ(job.model.num_hidden_layers, 12);
  EXPECT_EQ(job.origins.at("model.num_hidden_layers"), "preset gpt2-124m");
  EXPECT_EQ(job.origins.at("model.hidden_size"), "file job.toml:4");
  EXPECT_EQ(job.model.head_dim, 16) << "follows from the changed sizes, not the preset's";
  EXPECT_EQ(job.model.num_key_value_heads, 6);
  EXPECT_EQ(job.model.intermediate_size, 4 * 96);
}

TEST(Parse, APresetIsOneFamily) {
  const auto problems =
      problems_in([] { parse_job("[model]\npreset='gpt2-124m'\nfamily='llama'\n", "job.toml"); });
  ASSERT_FALSE(problems.empty());
  EXPECT_EQ(problems[0].field, "model.family");
  const auto unknown = problems_in([] { parse_job("[model]\npreset='gpt2-124'\n", "job.toml"); });
  ASSERT_THAT(unknown, SizeIs(1)) << "one mistake is one problem";
  EXPECT_EQ(unknown[0].field, "model.preset");
}

TEST(Parse, AConfigFillsTheModel) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("muster_parse_{}", getpid());
  fs::create_directories(folder);
  ModelSpec model = small_job().model;
  write_text(folder / "config.json", to_hf_config(model));
  const Job job = parse_job("[model]\nconfig='config.json'\nnum_hidden_layers=7\n", folder / "job.toml");
  model.num_hidden_layers = 7;
  EXPECT_EQ(job.model, model);
  EXPECT_EQ(job.origins.at("model.hidden_size"), "config config.json");
  const auto missing = problems_in([&] { parse_job("[model]\nconfig='no.json'\n", folder / "job.toml"); });
  ASSERT_FALSE(missing.empty());
  EXPECT_EQ(missing[0].field, "model.config");
  fs::remove_all(folder);
}

TEST(Parse, OtherFormatsFollowCompute) {
  const Job job = small_job("[numerics]\ncompute='float64'\n");
  EXPECT_EQ(job.numerics.parameters, "float64");
  EXPECT_EQ(job.numerics.gradients, "float64");
  EXPECT_EQ(job.numerics.optimizer, "float64");
}

TEST(Parse, SyntaxErrorsHaveLineAndColumn) {
  const auto problems = problems_of("[data]\npath = \n");
  ASSERT_FALSE(problems.empty());
  EXPECT_THAT(problems[0].field, HasSubstr("job.toml:9:"));
}

TEST(Parse, SettingsAreTomlOrText) {
  const Job job =
      small_job("", {"optimizer.betas=[0.8, 0.99]", "data.path=2024-01-01", "training.steps=1_000",
                     "optimizer.learning_rate=1e-3", "training.bucket_bytes=25 MiB", "model.weights="});
  EXPECT_THAT(job.optimizer.betas, ElementsAre(0.8, 0.99));
  EXPECT_EQ(job.data.path, (fs::current_path() / "2024-01-01").string());
  EXPECT_EQ(job.training.steps, 1000);
  EXPECT_EQ(job.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(job.training.bucket_bytes, 25 << 20);
  EXPECT_EQ(job.weights, "");
  EXPECT_EQ(small_job("", {"training.steps=5", "training.steps=6"}).training.steps, 6);
  EXPECT_THAT(problems_of("", {"training.steps"}), SizeIs(1));
  EXPECT_THAT(problems_of("", {"training.steps=3\nseed = 4"}), SizeIs(1));
}

TEST(Parse, B095_BooleansAndQuotes) {
  for (const char* off : {"false", "False", "0", "no", "", "\"\"", "\"no\""})
    EXPECT_FALSE(small_job("", {std::string("training.deterministic=") + off}).training.deterministic) << off;
  for (const char* on : {"true", "1", "True"})
    EXPECT_TRUE(small_job("", {std::string("training.deterministic=") + on}).training.deterministic) << on;
  for (const char* wrong : {"flase", "2", "\u201ctrue\u201d", "[true]"})
    EXPECT_THAT(problems_of("", {std::string("training.deterministic=") + wrong}), SizeIs(1)) << wrong;
  const auto curly = problems_of("[data]\npath = \"\u201ccorpus.txt\u201d\"\n");
  ASSERT_THAT(curly, SizeIs(1));
  EXPECT_THAT(curly[0].rule, HasSubstr("curly"));
  EXPECT_THAT(problems_of("[data]\npath = \u201ccorpus.txt\u201d\n"), SizeIs(1));
  EXPECT_THAT(problems_of("", {"data.path=\u201ccorpus.txt\u201d"}), SizeIs(1));
}

TEST(Parse, B097_AMisspeltKeyIsRefusedWithTheNearest) {
  const auto problems = problems_of("[optimizer]\ngradient_cliping = 1.0\n");
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].field, "optimizer.gradient_cliping");
  EXPECT_EQ(problems[0].value, "1.0");
  EXPECT_EQ(problems[0].remedy, "did you mean gradient_clip? (file job.toml:9)");
  EXPECT_THAT(problems_of("[training]\nlearning_rate = 1.0\n")[0].remedy,
              HasSubstr("optimizer.learning_rate"));
  EXPECT_THAT(problems_of("[trainning]\nsteps = 1\n")[0].remedy, HasSubstr("[training]"));
  EXPECT_THAT(problems_of("", {"training.stepz=4"})[0].remedy, HasSubstr("did you mean steps?"));
  const Variable variable("MUSTER_TRAINING_STEPZ", "4");
  EXPECT_THAT(problems_of("")[0].remedy, HasSubstr("steps? (environment MUSTER_TRAINING_STEPZ)"));
}

TEST(Parse, B101_TheWrittenOrderDecides) {
  const std::string file = "[training]\nsteps = 7\n";
  EXPECT_EQ(small_job().training.steps, 20);
  EXPECT_EQ(small_job(file).training.steps, 7);
  EXPECT_EQ(small_job(file, {"training.steps=9"}).training.steps, 9);

  const Job back = small_job(file, {"training.steps=20"});
  EXPECT_EQ(back.training.steps, 20) << "given equal to the default still wins";
  EXPECT_EQ(back.origins.at("training.steps"), "command line");

  const Variable variable("MUSTER_TRAINING_STEPS", "8");
  const Job between = small_job(file);
  EXPECT_EQ(between.training.steps, 8);
  EXPECT_EQ(between.origins.at("training.steps"), "environment MUSTER_TRAINING_STEPS");
  EXPECT_EQ(small_job(file, {"training.steps=9"}).training.steps, 9);

  const Job unset = small_job(file, {"training.steps=default"});
  EXPECT_EQ(unset.training.steps, 20);
  EXPECT_EQ(unset.origins.at("training.steps"), "default");
}

TEST(Parse, B101_TheFilesFormatStandsUnlessAFlagIsGiven) {
  const std::string file = "[numerics]\ncompute = 'float64'\n";
  EXPECT_EQ(small_job(file).numerics.compute, "float64");
  EXPECT_EQ(small_job(file, {"numerics.compute=float32"}).numerics.compute, "float32");
}

TEST(Parse, EverythingWrongIsReportedTogether) {
  const auto problems =
      problems_of("num_hiden_layers = 3\n[data]\nformat='csv'\n[training]\nsteps='many'\n",
                  {"optimizer.betas=[1.0]", "training.global_batch_size=7", "layout.expert=2"});
  std::vector<std::string> fields;
  for (const Problem& problem : problems) fields.push_back(problem.field);
  EXPECT_THAT(fields, testing::UnorderedElementsAre("model.num_hiden_layers", "data.format", "training.steps",
                                                    "optimizer.betas", "training.global_batch_size",
                                                    "layout.expert"));
}

TEST(Parse, NumbersStayInTheirRange) {
  for (const char* wrong : {"training.steps=0",
                            "training.steps=1.5",
                            "training.steps=1e3",
                            "training.steps=true",
                            "training.seed=-1",
                            "optimizer.learning_rate=-1",
                            "optimizer.learning_rate=nan",
                            "optimizer.learning_rate=inf",
                            "optimizer.betas=[0.9, 1.0]",
                            "optimizer.betas=[0.9, 0.9, 0.9]",
                            "optimizer.betas=0.9",
                            "optimizer.gradient_clip=-1",
                            "training.dropout=1",
                            "training.collective_timeout_seconds=0",
                            "layout.zero=4",
                            "layout.tensor=0",
                            "layout.tensor=99999999999",
                            "training.steps=99999999999999999999",
                            "training.bucket_bytes=25 XB",
                            "data.sequence_length=0",
                            "model.vocab_size=-5",
                            "layout.order=tensor"})
    EXPECT_THAT(problems_of("", {wrong}), SizeIs(1)) << wrong;
}

TEST(Parse, AJobWithoutAModelSaysSoOnce) {
  const auto problems = problems_in([] { parse_job("[training]\nsteps = 3\n", "job.toml"); });
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].field, "model");
}

TEST(Parse, TheModelsOwnRulesAreReportedOnce) {
  EXPECT_THAT(problems_of("", {"model.vocab_size=0"}), SizeIs(1));
  EXPECT_THAT(problems_of("", {"model.family=gpt2", "model.rope_scaling={rope_type='linear',factor=2}"}),
              SizeIs(1));
}

TEST(Parse, AMissingFileIsTheUsersError) {
  const auto problems = problems_in([] { load_job("no/such/job.toml"); });
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_THAT(problems[0].rule, HasSubstr("No such file"));
}

}  // namespace
}  // namespace muster::spec
