#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/config/testing.h"

namespace muster::spec {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// The one problem of a job with these settings.
Problem problem(const std::vector<std::string>& settings, const std::string& more = "") {
  const auto problems = problems_of(more, settings);
  if (problems.size() == 1) return problems[0];
  ADD_FAILURE() << problems.size() << " problems with " << testing::PrintToString(settings);
  return {};
}

TEST(Rules, TheBatchIsAMultiple) {
  const Problem uneven = problem({"training.global_batch_size=10", "layout.data=4"});
  EXPECT_EQ(uneven.field, "training.global_batch_size");
  EXPECT_EQ(uneven.value, "10");
  EXPECT_THAT(uneven.rule, HasSubstr("4 x 2 = 8"));
  EXPECT_THAT(uneven.remedy, HasSubstr("8 and 16 are the nearest"));
  EXPECT_THAT(problem({"training.global_batch_size=3", "layout.data=4"}).remedy, HasSubstr("8 is the least"));
  const Problem unknown = problem({"training.global_batch_size=7", "training.micro_batch_size=2"});
  EXPECT_THAT(unknown.rule, HasSubstr("micro_batch_size = 2, times the ranks of the data axis"));
  EXPECT_THAT(unknown.remedy, HasSubstr("a multiple of 4"));
  EXPECT_THAT(problems_of("", {"training.global_batch_size=16", "layout.data=4"}), IsEmpty());
}

TEST(Rules, HeadsDivide) {
  const auto problems = problems_of("", {"layout.tensor=3", "model.num_key_value_heads=2"});
  ASSERT_THAT(problems, SizeIs(3));
  EXPECT_EQ(problems[0].field, "model.num_attention_heads");
  EXPECT_THAT(problems[0].rule, HasSubstr("layout.tensor = 3"));
  EXPECT_EQ(problems[1].field, "model.num_key_value_heads");
  EXPECT_THAT(problems[1].rule, HasSubstr("a multiple or a divisor of layout.tensor = 3"));
  EXPECT_THAT(problems[1].remedy, HasSubstr("2 and 4 are the nearest"));
  EXPECT_EQ(problems[2].field, "model.intermediate_size");
  EXPECT_EQ(problem({"model.num_attention_heads=5"}).field, "model.num_attention_heads");
}

TEST(Rules, Gpt2HasAPositionForEachToken) {
  const std::vector<std::string> gpt2 = {"model.family=gpt2", "model.max_position_embeddings=100",
                                         "data.sequence_length=101"};
  EXPECT_EQ(problem(gpt2).field, "data.sequence_length");
  EXPECT_THAT(problems_of("", {"model.max_position_embeddings=100", "data.sequence_length=101"}), IsEmpty())
      << "rotary positions have no end";
}

TEST(Rules, OneTrainingSetAndOneValidationSet) {
  const std::string both = "[data]\npath='a'\n[[data.sources]]\npath='b'\n";
  EXPECT_EQ(problem({}, both).field, "data.path");
  EXPECT_EQ(problem({}, "[[data.sources]]\npath='b'\nfrom_sample=5\n").field, "data.sources");
  EXPECT_EQ(problem({"training.evaluate_every=5"}).field, "training.evaluate_every");
  EXPECT_EQ(
      problem({"training.evaluate_every=5", "data.validation_path=v", "data.validation_fraction=0.1"}).field,
      "data.validation_path");
  EXPECT_THAT(problems_of("", {"training.evaluate_every=5", "data.validation_fraction=0.1"}), IsEmpty());
}

TEST(Rules, BytesNeed256Ids) {
  EXPECT_EQ(problem({"model.vocab_size=255"}).field, "model.vocab_size");
  EXPECT_THAT(problems_of("", {"model.vocab_size=255", "data.format=uint16"}), IsEmpty());
}

TEST(Rules, TheScheduleFits) {
  EXPECT_EQ(problem({"optimizer.schedule=wsd", "optimizer.warmup_steps=15", "optimizer.decay_steps=6"}).field,
            "optimizer.decay_steps");
  EXPECT_THAT(
      problems_of("", {"optimizer.schedule=wsd", "optimizer.warmup_steps=15", "optimizer.decay_steps=5"}),
      IsEmpty());
  EXPECT_EQ(problem({"optimizer.minimum_learning_rate=1"}).field, "optimizer.minimum_learning_rate");
  EXPECT_EQ(problem({"optimizer.schedule=step"}).field, "optimizer.schedule");
}

TEST(Rules, TheOrderListsEachAxisOnce) {
  EXPECT_EQ(problem({"layout.order=['tensor','tensor','data','pipeline']"}).field, "layout.order");
  EXPECT_EQ(problem({"layout.order=['tensor','data','pipeline']"}).field, "layout.order");
  EXPECT_EQ(problem({"layout.order=['tensor','context','data','expert']"}).field, "layout.order");
  EXPECT_THAT(problems_of("", {"layout.order=['data','tensor','context','pipeline']"}), IsEmpty());
}

TEST(Rules, UnknownHardwareIsFoundWithTheRest) {
  const auto problems = problems_of("", {"hardware.name=h1000", "training.micro_batch_size=3"});
  ASSERT_THAT(problems, SizeIs(2));
  EXPECT_EQ(problems[0].field, "hardware.name");
  EXPECT_THAT(problems[0].remedy, HasSubstr("h100-sxm"));
  EXPECT_THAT(problems_of("", {"hardware.name=H100 SXM"}), IsEmpty());
}

TEST(Rules, B097_ASettingWithoutEffectIsRefused) {
  for (const char* idle : {"optimizer.momentum=0.9", "layout.context_method=ring", "layout.schedule=gpipe",
                           "optimizer.decay_steps=5", "data.text_key=body", "data.on_bad_line=skip",
                           "training.evaluate_batches=4", "data.validation_path=v.txt", "checkpoint.keep=3",
                           "checkpoint.async=false", "layout.prefetch=2", "layout.keep_after_forward=true",
                           "layout.reduce_every=step", "checkpoint.contract=coverage-equivalent"}) {
    const Problem refused = problem({idle});
    EXPECT_THAT(refused.rule, HasSubstr("no effect")) << idle;
    EXPECT_THAT(refused.remedy, HasSubstr("=default (command line)")) << idle;
  }
  EXPECT_THAT(problem({"optimizer.name=sgd", "optimizer.betas=[0.9,0.95]"}).rule, HasSubstr("not adamw"));
  EXPECT_THAT(problem({"optimizer.nesterov=false"}).rule, HasSubstr("not muon"));
  EXPECT_THAT(problem({"optimizer.name=sgd", "optimizer.newton_schulz_steps=6"}).rule, HasSubstr("not muon"));
  EXPECT_THAT(problem({"optimizer.schedule=constant", "optimizer.minimum_learning_rate=1e-5"}).rule,
              HasSubstr("constant"));
  EXPECT_THAT(problem({"model.family=gpt2", "model.rope_theta=5e5"}).rule, HasSubstr("learns its positions"));
}

TEST(Rules, B097_SequenceParallelismNeedsATensorGroup) {
  const Problem refused = problem({"layout.sequence_parallel=true", "layout.tensor=1"});
  EXPECT_EQ(refused.field, "layout.sequence_parallel");
  EXPECT_THAT(refused.rule, HasSubstr("layout.tensor is 1"));
}

TEST(Rules, SequenceParallelismSharesRowsEvenly) {
  const std::vector<std::string> shared = {"layout.sequence_parallel=true", "layout.tensor=4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), shared.begin(), shared.end());
    return problems_of("", more);
  };
  const auto refused = with({"data.sequence_length=30", "training.micro_batch_size=1"});
  ASSERT_THAT(refused, SizeIs(1));
  EXPECT_EQ(refused[0].field, "data.sequence_length");
  EXPECT_THAT(refused[0].rule, HasSubstr("layout.tensor = 4"));
  EXPECT_THAT(refused[0].remedy, HasSubstr("28 and 32 are the nearest"));
  // Two sequences of 30 are 60 rows.
  EXPECT_THAT(with({"data.sequence_length=30", "training.micro_batch_size=2"}), IsEmpty());
}

TEST(Rules, B097_OneReductionAStepNeedsMicroBatches) {
  const std::vector<std::string> step = {"layout.zero=2", "layout.reduce_every=step"};
  EXPECT_THAT(problems_of("[layout]\ndata = 2\n", step), IsEmpty());
  const auto problems = problems_of("[layout]\ndata = 4\n", step);
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].field, "layout.reduce_every");
  EXPECT_THAT(problems[0].rule, HasSubstr("8 sequences are the whole step"));
}

TEST(Rules, MomentsInBfloat16Decay) {
  EXPECT_THAT(problems_of("", {"numerics.optimizer=bfloat16"}), IsEmpty());
  const Problem stuck = problem({"numerics.optimizer=bfloat16", "optimizer.betas=[0.9,0.999]"});
  EXPECT_EQ(stuck.field, "optimizer.betas");
  EXPECT_THAT(stuck.rule, HasSubstr("0.998"));
  EXPECT_THAT(problem({"numerics.optimizer=bfloat16", "optimizer.name=sgd"}).rule, HasSubstr("not built"));
}

TEST(Rules, LowPrecisionKeepsItsSumsWide) {
  const Job job = small_job("[numerics]\ncompute='bfloat16'\n");
  EXPECT_EQ(job.numerics.parameters, "bfloat16");
  EXPECT_EQ(job.numerics.gradients, "float32");
  EXPECT_EQ(job.numerics.master, "float32");
  EXPECT_EQ(job.numerics.optimizer, "float32");
  EXPECT_EQ(job.origins.at("numerics.master"), "follows from numerics.compute");
  EXPECT_THAT(
      problems_of("[numerics]\ncompute='bfloat16'\n",
                  {"numerics.gradients=bfloat16", "numerics.master=none", "numerics.optimizer=bfloat16"}),
      IsEmpty());
  EXPECT_THAT(problem({"numerics.master=float32"}).rule, HasSubstr("has no effect"));
  EXPECT_THAT(problem({"numerics.compute=bfloat16", "numerics.parameters=float32"}).rule,
              HasSubstr("not built yet"));
  EXPECT_THAT(
      problem({"numerics.compute=bfloat16", "numerics.gradients=bfloat16", "optimizer.name=muon"}).rule,
      HasSubstr("Muon"));
}

TEST(Rules, MuonHasMomentumAndAdamWsSettings) {
  EXPECT_THAT(problems_of("", {"optimizer.name=muon", "optimizer.nesterov=false",
                               "optimizer.betas=[0.9,0.99]", "optimizer.eps=1e-9", "optimizer.momentum=0.9"}),
              IsEmpty());
  const Problem still = problem({"optimizer.name=muon", "optimizer.momentum=0"});
  EXPECT_EQ(still.field, "optimizer.momentum");
  EXPECT_THAT(still.rule, HasSubstr("above 0"));
  EXPECT_THAT(still.remedy, HasSubstr("0.95"));
  EXPECT_EQ(problem({"optimizer.name=muon", "optimizer.newton_schulz_steps=0"}).field,
            "optimizer.newton_schulz_steps");
  EXPECT_THAT(problem({"numerics.optimizer=bfloat16", "optimizer.name=muon"}).rule, HasSubstr("not built"));
}

TEST(Rules, OffloadNeedsAStateAndNoCuda) {
  EXPECT_THAT(problems_of("", {"layout.offload=host", "optimizer.name=sgd", "optimizer.momentum=0.9"}),
              IsEmpty());
  EXPECT_THAT(problems_of("", {"layout.offload=none", "optimizer.name=sgd"}), IsEmpty());
  const Problem idle = problem({"layout.offload=host", "optimizer.name=sgd"});
  EXPECT_EQ(idle.field, "layout.offload");
  EXPECT_THAT(idle.rule, HasSubstr("no effect: optimizer.name is sgd without momentum"));
  EXPECT_THAT(problems_of("", {"layout.offload=file", "layout.offload_path=/tmp"}), IsEmpty());
  EXPECT_EQ(problem({"layout.offload=file"}).field, "layout.offload_path");
  EXPECT_THAT(problem({"layout.offload=host", "layout.offload_path=/tmp"}).rule, HasSubstr("no effect"));
  const Problem cuda = problem({"layout.offload=host", "training.device=cuda"});
  EXPECT_EQ(cuda.field, "layout.offload");
  EXPECT_THAT(cuda.rule, HasSubstr("not built yet"));
}

TEST(Rules, FewerKeyHeadsThanRanksAndAnyVocabulary) {
  EXPECT_THAT(problems_of("", {"layout.tensor=4", "model.num_key_value_heads=2", "model.vocab_size=511"}),
              IsEmpty());
}

TEST(Rules, WhatAsksForNothingIsNoError) {
  EXPECT_THAT(problems_of("", {"optimizer.momentum=0", "layout.sequence_parallel=false", "layout.chunks=1",
                               "layout.replicate=1", "optimizer.decay_steps=0"}),
              IsEmpty());
  EXPECT_THAT(problems_of("[data]\nvalidation_path='v'\n[training]\nevaluate_every=5\nevaluate_batches=2\n",
                          {"training.evaluate_every=0"}),
              IsEmpty())
      << "switched off by name";
  EXPECT_THAT(problems_of("[optimizer]\nname='sgd'\nmomentum=0.9\n",
                          {"optimizer.name=default", "optimizer.momentum=default"}),
              IsEmpty());
}

TEST(Rules, WhatIsNotBuiltIsRefused) {
  for (const char* later :
       {"layout.pipeline=2", "layout.expert=2", "numerics.parameters=float64", "numerics.parameters=bfloat16",
        "numerics.gradients=float64", "numerics.gradients=bfloat16", "numerics.optimizer=float16",
        "numerics.compute=float16", "numerics.recipe=fp8"}) {
    const Problem refused = problem({later});
    EXPECT_THAT(refused.rule, HasSubstr("not built yet")) << later;
    EXPECT_FALSE(refused.remedy.empty()) << later;
  }
}

TEST(Layout, DataTakesWhatTheWorldLeaves) {
  Job job = small_job();
  resolve_layout(job, 4);
  EXPECT_EQ(job.layout.data, 4);
  EXPECT_EQ(job.origins.at("layout.data"), "a world of 4");
  EXPECT_EQ(micro_batches(job), 1);
  Job alone = small_job();
  resolve_layout(alone, 1);
  EXPECT_EQ(micro_batches(alone), 4);
}

TEST(Layout, TheProductIsTheWorld) {
  Job job = small_job("[layout]\ndata = 2\n");
  const auto problems = problems_in([&] { resolve_layout(job, 4); });
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_THAT(problems[0].rule, HasSubstr("2 x 1 x 1 x 1 = 2 ranks, and the world has 4"));
  EXPECT_THAT(problems[0].remedy, HasSubstr("start 2 processes"));
  Job odd = small_job();
  odd.layout.tensor = 3;
  EXPECT_THAT(problems_in([&] { resolve_layout(odd, 4); })[0].rule, HasSubstr("a world of 4"));
  EXPECT_THAT(problems_in([&] { resolve_layout(odd, 0); }), SizeIs(1));
}

TEST(Layout, TheBatchIsCheckedAgainstTheWorld) {
  Job job = small_job();
  const auto problems = problems_in([&] { resolve_layout(job, 3); });
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].field, "training.global_batch_size");
}

TEST(Layout, MicroBatchesOfAnUnresolvedLayoutAreABug) {
  EXPECT_THROW(micro_batches(small_job()), Bug);
}

}  // namespace
}  // namespace muster::spec
