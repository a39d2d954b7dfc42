// Reference A: twenty steps of an independent implementation, step by step, in every layout that this host
// can run.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/program.h"

namespace muster::test {
namespace {

struct Case {
  int procs;
  int micro_batch_size;  // 8 sequences a step: 8 / (procs * this) micro-batches on each rank
};

class ReferenceA : public ::testing::TestWithParam<Case> {};

TEST_P(ReferenceA, LossAndNormOfEachStep) {
  const Folder folder;
  const std::string run_folder = (folder / "run").string();
  const Outcome outcome =
      muster("train " + reference("A/job.toml") + " --run " + run_folder + " --procs " +
             std::to_string(GetParam().procs) + " --set training.threads=1 --set training.micro_batch_size=" +
             std::to_string(GetParam().micro_batch_size));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const Json expected = parse_json(read_text(reference("A/expected.json")), "expected.json")["float64"];
  const std::vector<Json> steps = read_metrics(run_folder);
  ASSERT_EQ(steps.size(), expected.size());
  double worst_loss = 0, worst_norm = 0;
  for (size_t at = 0; at < steps.size(); ++at) {
    EXPECT_EQ(steps[at]["step"], static_cast<int64_t>(at) + 1);
    worst_loss =
        std::max(worst_loss, std::abs(steps[at]["loss"].get<double>() - expected[at]["loss"].get<double>()));
    worst_norm = std::max(
        worst_norm, std::abs(steps[at]["grad_norm"].get<double>() - expected[at]["grad_norm"].get<double>()));
  }
  std::printf("reference A, %d processes, micro-batch %d: loss within %.2g, norm within %.2g\n",
              GetParam().procs, GetParam().micro_batch_size, worst_loss, worst_norm);
  EXPECT_LE(worst_loss, 1e-5);
  EXPECT_LE(worst_norm, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ReferenceA,
                         ::testing::Values(Case{1, 8}, Case{1, 2}, Case{1, 1}, Case{2, 4}, Case{2, 2},
                                           Case{2, 1}, Case{4, 2}, Case{4, 1}));

}  // namespace
}  // namespace muster::test
