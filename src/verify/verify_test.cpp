// Each proof holds for the evidence of a run, and fails, naming what is wrong, for evidence that was tampered
// with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/rehearse.h"
#include "spec/model/parameter_table.h"
#include "train/optim/orthogonalize.h"
#include "verify/communication.h"
#include "verify/matrix_update.h"
#include "verify/memory.h"
#include "verify/replicas.h"
#include "verify/testing.h"
#include "verify/update_equivalence.h"

namespace muster::verify {
namespace {

using ::testing::HasSubstr;

class Proofs : public IdsFolder {
 protected:
  void SetUp() override {
    job_ = spec::parse_job(
        "[model]\nfamily = \"llama\"\nvocab_size = 61\nhidden_size = 16\nnum_hidden_layers = 2\n"
        "num_attention_heads = 2\nintermediate_size = 20\n[data]\npath = \"ids.bin\"\nformat = \"uint16\"\n"
        "sequence_length = 8\n[training]\nglobal_batch_size = 4\nmicro_batch_size = 2\nsteps = 4\nthreads = "
        "1\n",
        (folder_ / "job.toml").string());
    spec::resolve_layout(job_, 1);
    one_ = testify(job_, {});
  }

  // The names of the checks that fail when rank 0 says `run` and one process says `one_`.
  std::vector<std::string> failed_updates(const Witness& run) const {
    return failed(update_equivalence(job_, one_, {run}));
  }
  static std::vector<std::string> failed(const std::vector<Check>& checks) {
    std::vector<std::string> names;
    for (const Check& check : checks)
      if (!check.passed) names.push_back(check.name);
    return names;
  }
  Witness copy() const {
    Witness other = one_;
    for (auto* tensors : {&other.gradients, &other.parameters})
      for (at::Tensor& tensor : *tensors) tensor = tensor.clone();
    return other;
  }

  spec::Job job_;
  Witness one_;
};

// What ranks would make that hold a half each and orthogonalise it by itself.
TEST_F(Proofs, MuonsMatricesAreWholeWhenTheyAreOrthogonalised) {
  job_.optimizer.name = "muon";
  job_.optimizer.momentum = 0.95;
  const Witness one = testify(job_, {});
  EXPECT_EQ(matrix_update(job_, one, {one}).size(), 14u);
  EXPECT_TRUE(failed(matrix_update(job_, one, {one})).empty());
  EXPECT_TRUE(matrix_update(job_, one_, {one_}).empty());
  const spec::ParameterTable table(job_.model);
  const spec::ParameterRow& row = table.row("model.layers.1.mlp.up_proj.weight");
  const auto at = static_cast<size_t>(&row - table.rows().data());
  Witness run = one;
  at::Tensor& change = run.changes[at] = one.changes[at].clone();
  const Clock clock;
  nn::Executor executor(at::kCPU, at::kFloat, clock);
  for (const at::Tensor& half : change.chunk(2)) train::orthogonalize(executor, half, 5);
  change.mul_(one.changes[at].norm() / change.norm());
  EXPECT_THAT(failed(matrix_update(job_, one, {run})), ::testing::ElementsAre(HasSubstr("muon " + row.name)));
}

TEST_F(Proofs, HoldForWhatTheRunDid) {
  EXPECT_TRUE(failed_updates(one_).empty());
  const telemetry::StepRecord rehearsed = plan::rehearse(job_, 0).record;
  EXPECT_TRUE(failed(memory(rehearsed, one_)).empty());
  EXPECT_TRUE(failed(communication(rehearsed, one_)).empty());
  EXPECT_FALSE(all_passed({}));  // nothing was checked
}

TEST_F(Proofs, NameTheGradientThatIsWrong) {
  const spec::ParameterTable table(job_.model);
  for (size_t row = 0; row < table.rows().size(); ++row) {
    Witness run = copy();
    run.gradients[row].mul_(2);
    const auto names = failed_updates(run);
    ASSERT_EQ(names.size(), 1u) << table.rows()[row].name;
    EXPECT_THAT(names[0], HasSubstr(table.rows()[row].name));
  }
}

TEST_F(Proofs, NameTheParameterThatIsWrong) {
  Witness run = copy();
  run.parameters[3].view(-1)[0] += 1e-3;
  EXPECT_THAT(failed_updates(run),
              ::testing::ElementsAre(HasSubstr("update " + spec::ParameterTable(job_.model).rows()[3].name)));
}

TEST_F(Proofs, SeeAWrongLossNormOrCount) {
  Witness run = copy();
  run.loss *= 1 + 1e-4;
  run.grad_norm *= 1 - 1e-4;
  run.tokens += 1;
  EXPECT_THAT(failed_updates(run), ::testing::UnorderedElementsAre("loss", "norm", "tokens"));
}

TEST_F(Proofs, SeeNotANumber) {
  Witness run = copy();
  run.loss = std::numeric_limits<double>::quiet_NaN();
  run.gradients[0].fill_(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(failed_updates(run).size(), 2u);
}

TEST_F(Proofs, SeeReplicasThatDiffer) {
  spec::Job job = job_;
  job.layout.data = 2;
  Witness other = copy();
  other.rank = 1;
  EXPECT_TRUE(failed(replicas(job, {one_, other})).empty());
  other.state_hashes[3] ^= 1;
  EXPECT_THAT(failed(replicas(job, {one_, other})),
              ::testing::ElementsAre("replica " + spec::ParameterTable(job_.model).rows()[3].name +
                                     " over the data axis"));
}

TEST_F(Proofs, SeeEveryByteOfMemory) {
  const telemetry::StepRecord rehearsed = plan::rehearse(job_, 0).record;
  Witness run = copy();
  run.record.memory.push_back({4, telemetry::Category::activations});
  run.record.memory.push_back({-4, telemetry::Category::activations});
  EXPECT_THAT(failed(memory(rehearsed, run)), ::testing::ElementsAre(HasSubstr("profile")));
  run = copy();
  run.record.live_at_start[static_cast<int>(telemetry::Category::optimizer)] += 4;
  EXPECT_THAT(failed(memory(rehearsed, run)),
              ::testing::ElementsAre(HasSubstr("optimizer"), HasSubstr("peak")));
  run = copy();
  run.record.memory.push_back({int64_t{1} << 40, telemetry::Category::scratch});  // a line of its own
  EXPECT_TRUE(failed(memory(rehearsed, run)).empty());
}

TEST_F(Proofs, SeeEveryMessage) {
  const telemetry::StepRecord rehearsed = plan::rehearse(job_, 0).record;
  Witness run = copy();
  run.record.messages.push_back({"data", "all_reduce", 4, 2});
  EXPECT_EQ(failed(communication(rehearsed, run)).size(), 2u);
}

TEST(Tolerance, GrowsWithSummandsAndShrinksWithPrecision) {
  spec::Job job;
  job.model.num_hidden_layers = 2;
  const auto tolerance = [&](const char* compute, int64_t summands) {
    job.numerics.compute = compute;
    return reduction_tolerance(job, summands);
  };
  EXPECT_LT(tolerance("float32", 4), 1e-5);
  EXPECT_LT(tolerance("float64", 4), 1e-11);
  EXPECT_NEAR(tolerance("bfloat16", 4), 0.084, 0.001);
  for (const char* compute : {"float32", "bfloat16"})
    EXPECT_GT(tolerance(compute, 1000), tolerance(compute, 4));
}

}  // namespace
}  // namespace muster::verify
