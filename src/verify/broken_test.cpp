// Broken on purpose: ranks of a tensor group, each a thread, whose update is spoiled in one place. The proofs
// name the parameter and the axis.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "comm/testing.h"
#include "spec/model/parameter_table.h"
#include "verify/replicas.h"
#include "verify/testing.h"
#include "verify/update_equivalence.h"

namespace muster::verify {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Broken : public IdsFolder {
 protected:
  spec::Job job(const std::string& model, int64_t tensor, bool sequence_parallel) const {
    spec::Job job = spec::parse_job(
        "[model]\nvocab_size = 61\nhidden_size = 16\nnum_hidden_layers = 2\nnum_attention_heads = 4\n"
        "intermediate_size = 20\nmax_position_embeddings = 16\n" +
            model +
            "\n[data]\npath = \"ids.bin\"\nformat = \"uint16\"\nsequence_length = 8\n[training]\n"
            "global_batch_size = 4\nmicro_batch_size = 2\nsteps = 4\nthreads = 1\n[numerics]\n"
            "compute = \"float64\"\nparameters = \"float64\"\ngradients = \"float64\"\n"
            "optimizer = \"float64\"\n",
        (folder_ / "job.toml").string());
    job.layout.tensor = tensor;
    job.layout.sequence_parallel = sequence_parallel;
    spec::resolve_layout(job, tensor);
    return job;
  }

  // What each rank of the job saw; rank's own thread meddles.
  std::vector<Witness> witnesses(const spec::Job& job, const Meddle& meddle) const {
    const int64_t size = job.layout.tensor * job.layout.data;
    std::vector<Witness> seen(static_cast<size_t>(size));
    comm::as_ranks(size, [&](const comm::World& world) {
      seen[static_cast<size_t>(world.rank)] = testify_update(job, world, meddle);
    });
    return seen;
  }

  static Witness alone(spec::Job job) {
    job.layout = {};
    spec::resolve_layout(job, 1);
    return testify_update(job, {});
  }

  // The checks that fail.
  std::vector<std::string> failed(const spec::Job& job, const std::vector<Witness>& ranks) const {
    std::vector<Check> checks = update_equivalence(job, alone(job), ranks);
    for (Check& check : replicas(job, ranks)) checks.push_back(std::move(check));
    std::vector<std::string> names;
    for (const Check& check : checks)
      if (!check.passed) names.push_back(check.name);
    return names;
  }
};

constexpr const char* kNorm = "model.layers.1.input_layernorm.weight";
constexpr const char* kBias = "transformer.h.1.mlp.c_proj.bias";

at::Tensor gradient(train::Rank& rank, const char* name) {
  return rank.parameters().gradient(rank.table().row(name));
}

TEST_F(Broken, NothingFailsWhereNothingIsBroken) {
  for (const bool sequence_parallel : {false, true})
    for (const char* model : {"family = \"llama\"\nnum_key_value_heads = 2", "family = \"gpt2\""}) {
      const spec::Job whole = job(model, 4, sequence_parallel);
      EXPECT_THAT(failed(whole, witnesses(whole, {})), IsEmpty()) << model;
    }
}

TEST_F(Broken, AReductionOfOneNormsGradientThatIsLeftOut) {
  const spec::Job split = job("family = \"llama\"", 2, true);
  const auto leave_out = [](train::Rank& rank, std::string_view phase) {
    thread_local at::Tensor own;
    if (phase == "reduce_finish") own = gradient(rank, kNorm).clone();
    if (phase == "update") gradient(rank, kNorm).copy_(own);
  };
  const auto names = failed(split, witnesses(split, leave_out));
  EXPECT_THAT(names, Contains(HasSubstr(std::string("gradient ") + kNorm)));
  EXPECT_THAT(names, Contains(std::string("replica ") + kNorm + " over the tensor axis"));
}

TEST_F(Broken, ABiasThatIsCountedByEachRank) {
  const spec::Job split = job("family = \"gpt2\"", 2, false);
  const auto twice = [](train::Rank& rank, std::string_view phase) {
    if (phase == "update") rank.groups().on(spec::Axis::tensor).all_reduce(gradient(rank, kBias)).wait();
  };
  const auto names = failed(split, witnesses(split, twice));
  EXPECT_THAT(names, Contains(AllOf(HasSubstr(std::string("gradient ") + kBias), HasSubstr("2 times"),
                                    HasSubstr("tensor axis"))));
}

TEST_F(Broken, ANormThatCountsAReplicaTwice) {
  const spec::Job split = job("family = \"llama\"", 2, true);
  std::vector<Witness> ranks = witnesses(split, {});
  const spec::ParameterTable table(split.model);
  const auto row = static_cast<size_t>(&table.row(kNorm) - table.rows().data());
  const double more = ranks[0].gradients[row].norm().item<double>();
  ranks[0].grad_norm = std::hypot(ranks[0].grad_norm, more);
  EXPECT_THAT(failed(split, ranks),
              Contains(AllOf(HasSubstr("norm"), HasSubstr(kNorm), HasSubstr("tensor axis"))));
}

TEST_F(Broken, SharedKeyHeadsThatAreNotSummed) {
  const spec::Job split = job("family = \"llama\"\nnum_key_value_heads = 2", 4, false);
  constexpr const char* kKey = "model.layers.0.self_attn.k_proj.weight";
  const auto leave_out = [](train::Rank& rank, std::string_view phase) {
    thread_local at::Tensor own;
    if (phase == "reduce_finish") own = gradient(rank, kKey).clone();
    if (phase == "update") gradient(rank, kKey).copy_(own);
  };
  const auto names = failed(split, witnesses(split, leave_out));
  EXPECT_THAT(names, Contains(HasSubstr(std::string("gradient ") + kKey)));
  EXPECT_THAT(names, Contains(std::string("replica ") + kKey + " over the tensor axis"));
}

}  // namespace
}  // namespace muster::verify
