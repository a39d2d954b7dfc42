// Failure cases of the field (CASES.md), by number.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "estimate/kinds/kind.h"
#include "estimate/layout_memory.h"
#include "estimate/pipeline_timeline.h"
#include "estimate/throughput.h"
#include "spec/model/model.h"

namespace muster::estimate {
namespace {

// MFU up to 121 % at long sequence: full squares counted for causal attention.
TEST(Cases, B088_TheConventionOfAttentionIsNamed) {
  TokenFlops flops;
  flops.linear = six_flops(12.0 * 4096 * 4096 * 32);
  const double causal = attention_flops(32, 4096, 16384, AttentionPairs::causal);
  const double full = attention_flops(32, 4096, 16384, AttentionPairs::full);
  EXPECT_NEAR(flops.linear / 1e9, 38.65, 0.005);
  EXPECT_NEAR(causal / 1e9, 12.88, 0.005);
  EXPECT_NEAR(full / 1e9, 25.77, 0.005);
  EXPECT_NEAR((flops.linear + full) / (flops.linear + causal), 1.25, 1e-12);

  flops.attention = causal;
  EXPECT_DOUBLE_EQ(hardware_flops(flops, Recompute::none), flops.total());
  EXPECT_DOUBLE_EQ(hardware_flops(flops, Recompute::full), flops.total() * 4 / 3);

  const std::vector<std::string> request = {
      "throughput", "--layers",      "32",  "--hidden", "4096", "--heads",     "32",  "--sequence",
      "16384",      "--peak-tflops", "989", "--mfu",    "0.85", "--recompute", "none"};
  const std::string page = run(request);
  EXPECT_NE(page.find("attention causal"), std::string::npos) << page;
  EXPECT_NE(page.find("MFU 85.0 %"), std::string::npos) << page;
  auto as_json = request;
  as_json.push_back("--json");
  const double tokens = parse_json(run(as_json), "throughput")["tokens_per_second"];
  // The same rate under the other convention would be 106 %: refused, not shown.
  EXPECT_THROW(
      run({"throughput", "--layers", "32", "--hidden", "4096", "--heads", "32", "--sequence", "16384",
           "--peak-tflops", "989", "--attention", "full", "--tokens-per-second", std::to_string(tokens)}),
      UserError);
}

TEST(Cases, B088_TheSpecCountsTheSamePairs) {
  // It counts the diagonal too: (s+1)/2 keys a token and not s/2.
  const spec::ModelSpec model = spec::preset("llama3-8b");
  const auto exact = spec::forward_flops_per_token(model, 4096);
  EXPECT_NEAR(3 * exact.attention / attention_flops(32, 4096, 4096, AttentionPairs::causal), 4097.0 / 4096,
              1e-12);
}

// Stage 2 without sharded gradients, no stage 1, slack hidden in the number.
TEST(Cases, B102_EachStageShardsWhatItSays) {
  const int64_t expected[4][3] = {
      {2'000'000'000, 2'000'000'000, 12'000'000'000},  // parameters, gradients, optimizer
      {2'000'000'000, 2'000'000'000, 1'500'000'000},
      {2'000'000'000, 250'000'000, 1'500'000'000},
      {250'000'000, 250'000'000, 1'500'000'000}};
  const int64_t totals[4] = {16'000'000'000, 5'500'000'000, 3'750'000'000, 2'000'000'000};
  for (int zero = 0; zero <= 3; ++zero) {
    const ModelStates states = model_states(1'000'000'000, {}, zero, 8);
    EXPECT_EQ(states.parameters, expected[zero][0]) << zero;
    EXPECT_EQ(states.gradients, expected[zero][1]) << zero;
    EXPECT_EQ(states.optimizer, expected[zero][2]) << zero;
    EXPECT_EQ(states.total(), totals[zero]) << zero;
  }
  // The slack is a line of its own.
  const Json page =
      parse_json(run({"memory", "--params", "1", "--gpus", "8", "--reserve", "3 GiB", "--json"}), "memory");
  for (size_t zero = 0; zero <= 3; ++zero) {
    EXPECT_EQ(page["strategies"][zero]["state_bytes"], totals[zero]);
    EXPECT_EQ(page["strategies"][zero]["reserve_bytes"], int64_t{3} << 30);
    EXPECT_EQ(page["strategies"][zero]["total_bytes"], totals[zero] + (int64_t{3} << 30));
  }
}

// Expert weights divided by the tensor degree.
TEST(Cases, B104_ExpertsHaveTheirOwnDivisors) {
  MemoryModel model;
  model.parameters.dense = 1'000'000'000;
  model.parameters.expert = 8 * 500'000'000LL;
  model.parameters.replicated = 1'000;  // router and norms
  Layout layout;
  layout.tensor = 4;
  layout.data = 2;
  layout.expert = 2;
  const StageParameters held = parameters_on_stage(model, layout, 0);
  EXPECT_EQ(held.dense + held.expert, 2'250'000'000);
  EXPECT_EQ(held.replicated, 1'000);
  // Optimizer shards: dense over the 2 data ranks, experts over the 2 * 4 / 2 that hold the same experts.
  layout.zero = 1;
  EXPECT_EQ(layout.dense_replicas(), 2);
  EXPECT_EQ(layout.expert_replicas(), 4);
  const DeviceMemory memory = memory_on_stage(model, {}, layout, 0);
  EXPECT_EQ(memory.states.optimizer, int64_t{12} * ((250'000'000 + 1'000) / 2 + 2'000'000'000 / 4));

  const Json page = parse_json(run({"memory", "--params", "1", "--expert-params", "4", "--tensor", "4",
                                    "--data", "2", "--expert", "2", "--reserve", "1B", "--json"}),
                               "memory");
  EXPECT_EQ(page["strategies"][0]["parameter_bytes"], 2 * 2'250'000'000LL);
}

// One number for all stages.
TEST(Cases, B106_EveryStageHasItsOwnMicroBatchesInFlight) {
  const auto in_flight = [](Schedule schedule, const PipelineShape& shape) {
    std::vector<int64_t> counts;
    const Timeline running =
        run_pipeline(schedule, shape, std::vector<double>(static_cast<size_t>(shape.stages), 1.0));
    for (int64_t stage = 0; stage < shape.stages; ++stage) {
      counts.push_back(chunks_in_flight(schedule, shape, stage));
      EXPECT_EQ(running.most_in_flight(stage), counts.back())
          << "the counter in the running schedule, stage " << stage;
    }
    return counts;
  };
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(in_flight(Schedule::one_f_one_b, {4, 8, 1}), (Counts{4, 3, 2, 1}));
  EXPECT_EQ(in_flight(Schedule::one_f_one_b, {4, 2, 1}), (Counts{2, 2, 2, 1}));
  EXPECT_EQ(in_flight(Schedule::interleaved, {4, 8, 2}), (Counts{11, 9, 7, 5}));
  EXPECT_EQ(in_flight(Schedule::gpipe, {4, 8, 1}), (Counts{8, 8, 8, 8}));

  MemoryModel model;
  model.parameters.dense = 1'000'000'000;
  model.layers = 8;
  model.shape = {1024, 1, 1024, 16};
  Layout plain, interleaved;
  plain.pipeline = interleaved.pipeline = 4;
  plain.micro_batches = interleaved.micro_batches = 8;
  interleaved.schedule = Schedule::interleaved;
  interleaved.chunks = 2;
  const auto stage_0 = [&](const Layout& layout) {
    return memory_on_stage(model, {}, layout, 0).activations;
  };
  EXPECT_EQ(stage_0(interleaved) * 1000, stage_0(plain) * 1375);
}

}  // namespace
}  // namespace muster::estimate
