// What must hold between the formulas, for every size.
#include <gtest/gtest.h>

#include "base/error.h"
#include "estimate/batch.h"
#include "estimate/checkpoint.h"
#include "estimate/collective.h"
#include "estimate/kv_cache.h"
#include "estimate/layout_memory.h"
#include "estimate/pipeline_timeline.h"
#include "estimate/shard.h"
#include "estimate/straggler.h"

namespace muster::estimate {
namespace {

constexpr LinkModel kLink = {8e-6, 50e9};

TEST(Identities, AllReduceIsReduceScatterThenAllGather) {
  for (int64_t ranks : {1, 2, 3, 8, 1000})
    for (double bytes : {1.0, 4096.0, 1e9}) {
      const auto time = [&](Collective op) {
        return collective_time(op, Algorithm::ring, ranks, bytes, kLink).seconds();
      };
      EXPECT_NEAR(time(Collective::all_reduce),
                  time(Collective::reduce_scatter) + time(Collective::all_gather),
                  1e-12 * time(Collective::all_reduce));
    }
}

TEST(Identities, AtTheCrossoverLatencyAndTransferAreEqual) {
  for (Collective op : {Collective::all_reduce, Collective::reduce_scatter, Collective::broadcast})
    for (Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::one_shot}) {
      if (!has_algorithm(op, algorithm)) continue;
      const double size = crossover_bytes(op, algorithm, 12, kLink);
      EXPECT_NEAR(collective_time(op, algorithm, 12, size, kLink).latency_share(), 0.5, 1e-12);
    }
  EXPECT_DOUBLE_EQ(crossover_bytes(Collective::all_reduce, Algorithm::ring, 8, kLink), 8 * 8e-6 * 50e9);
}

TEST(Identities, BusBandwidthOfALongRingIsTheLinks) {
  for (Collective op : {Collective::all_reduce, Collective::all_gather, Collective::all_to_all}) {
    const double bytes = 1e15;
    const double seconds = collective_time(op, Algorithm::ring, 8, bytes, kLink).seconds();
    EXPECT_NEAR(bus_factor(op, 8) * bytes / seconds, 50e9, 1e3);
  }
}

TEST(Identities, HierarchyIsTheRingWhereThereIsOneTier) {
  const LinkModel between = {15e-6, 25e9};
  const auto ring = [](int64_t ranks, const LinkModel& link) {
    return collective_time(Collective::all_reduce, Algorithm::ring, ranks, 1e8, link).seconds();
  };
  EXPECT_DOUBLE_EQ(hierarchical_all_reduce(1, 8, 1e8, kLink, between).seconds(), ring(8, kLink));
  EXPECT_DOUBLE_EQ(hierarchical_all_reduce(8, 1, 1e8, kLink, between).seconds(), ring(8, between));
  EXPECT_DOUBLE_EQ(flat_all_reduce(1, 8, 1e8, kLink, between).seconds(), ring(8, kLink));
  EXPECT_DOUBLE_EQ(flat_all_reduce(8, 1, 1e8, kLink, between).seconds(), ring(8, between));
  EXPECT_LT(hierarchical_all_reduce(16, 8, 1e8, kLink, between).seconds(),
            flat_all_reduce(16, 8, 1e8, kLink, between).seconds());
}

TEST(Collectives, TimesByHand) {
  const LinkModel between = {15e-6, 25e9};
  const double s = 1e8;
  const auto time = [&](Collective op, Algorithm algorithm) {
    return collective_time(op, algorithm, 8, s, kLink).seconds();
  };
  EXPECT_DOUBLE_EQ(time(Collective::all_reduce, Algorithm::ring), 14 * 8e-6 + 1.75 * s / 50e9);
  EXPECT_DOUBLE_EQ(time(Collective::all_to_all, Algorithm::ring), 7 * 8e-6 + 0.875 * s / 50e9);
  EXPECT_DOUBLE_EQ(time(Collective::p2p, Algorithm::ring), 8e-6 + s / 50e9);
  EXPECT_DOUBLE_EQ(time(Collective::all_reduce, Algorithm::tree), 6 * 8e-6 + 2 * s / 50e9);
  EXPECT_DOUBLE_EQ(time(Collective::broadcast, Algorithm::tree), 3 * 8e-6 + s / 50e9);
  EXPECT_DOUBLE_EQ(time(Collective::all_reduce, Algorithm::one_shot), 8e-6 + 7 * s / 50e9);
  EXPECT_DOUBLE_EQ(time(Collective::all_gather, Algorithm::one_shot), 8e-6 + 0.875 * s / 50e9);
  EXPECT_DOUBLE_EQ(hierarchical_all_reduce(4, 8, s, kLink, between).seconds(),
                   14 * 8e-6 + 1.75 * s / 50e9 + 6 * 15e-6 + 1.5 * (s / 8) / 25e9);
  EXPECT_DOUBLE_EQ(flat_all_reduce(4, 8, s, kLink, between).seconds(), 62 * 15e-6 + 62.0 / 32 * s / 25e9);
  // Eight cards of 25 GB/s carry more than the links of 50 GB/s inside.
  EXPECT_DOUBLE_EQ(multi_ring_all_reduce(4, 8, s, kLink, between).seconds(),
                   62 * 15e-6 + 62.0 / 32 * s / 50e9);
  EXPECT_DOUBLE_EQ(multi_ring_all_reduce(4, 1, s, kLink, between).seconds(), 6 * 15e-6 + 1.5 * s / 25e9);
  // A large buffer wants every card, a small one few messages.
  const auto hierarchy_gains = [&](double bytes) {
    return hierarchical_all_reduce(16, 8, bytes, kLink, between).seconds() <
           multi_ring_all_reduce(16, 8, bytes, kLink, between).seconds();
  };
  EXPECT_FALSE(hierarchy_gains(1e10));
  EXPECT_TRUE(hierarchy_gains(1e6));
}

TEST(Memory, ZeroVolumes) {
  const int expected[] = {2, 2, 2, 3};
  for (int zero = 0; zero <= 3; ++zero) EXPECT_EQ(zero_volume(zero), expected[zero]);
}

TEST(Identities, BucketsKeepTheTransferAndMultiplyTheLatency) {
  const auto whole = bucketed_all_reduce(16, 14e9, 14e9, kLink);
  const auto cut = bucketed_all_reduce(16, 14e9, 1e9, kLink);
  EXPECT_EQ(whole.count, 1);
  EXPECT_EQ(cut.count, 14);
  EXPECT_DOUBLE_EQ(cut.time.transfer_seconds, whole.time.transfer_seconds);
  EXPECT_DOUBLE_EQ(cut.time.latency_seconds, 14 * whole.time.latency_seconds);
}

TEST(Identities, ZeroStagesAreOrderedAndOneRankShardsNothing) {
  for (int64_t data : {2, 3, 8, 512}) {
    for (int zero = 1; zero <= 3; ++zero)
      EXPECT_LT(model_states(1'000'003, {}, zero, data).total(),
                model_states(1'000'003, {}, zero - 1, data).total());
  }
  for (int zero = 0; zero <= 3; ++zero) EXPECT_EQ(model_states(1'000'003, {}, zero, 1).total(), 16'000'048);
}

TEST(Identities, ShardsOverRanksAreTheWholeAndTheirPadding) {
  for (int64_t whole : {1, 7, 4096, 1'000'003})
    for (int64_t ranks : {1, 2, 3, 8, 1000}) {
      const Shard each = shard(whole, ranks);
      EXPECT_EQ(each.elements * ranks, whole + each.padding);
      EXPECT_LT(each.padding, ranks);
      EXPECT_GE(each.padding, 0);
      const ModelStates one = model_states(whole, {}, 3, ranks),
                        all = model_states(whole + each.padding, {}, 0, 1);
      EXPECT_EQ(one.total() * ranks, all.total());
    }
}

MemoryModel seventy_billion() {
  MemoryModel model;
  model.parameters.dense = 70'000'000'000;
  model.layers = 80;
  model.shape = {4096, 1, 8192, 64};
  return model;
}

// One data rank's bytes: what the stages hold together.
int64_t states_over_stages(Layout layout) {
  int64_t sum = 0;
  for (int64_t stage = 0; stage < layout.pipeline; ++stage)
    sum += memory_on_stage(seventy_billion(), {}, layout, stage).states.total();
  return sum * layout.tensor * layout.data;
}

TEST(Identities, StatesOfAllRanksAreTheUnshardedBytes) {
  const int64_t whole = 70'000'000'000 * 16;
  Layout layout;
  layout.tensor = 4;
  layout.pipeline = 5;
  EXPECT_EQ(states_over_stages(layout), whole);
  layout.zero = 3;
  layout.data = 7;  // divides the 3.5e9 parameters of a rank
  EXPECT_EQ(states_over_stages(layout), whole);
  layout.data = 3;  // does not: each of the 4 * 5 groups pads
  EXPECT_EQ(states_over_stages(layout), whole + 16 * 4 * 5 * shard(3'500'000'000, 3).padding);
}

TEST(Identities, StateDependsOnTheCutsNotOnTheirOrder) {
  Layout tensor, pipeline;
  tensor.tensor = 8;
  pipeline.pipeline = 8;
  EXPECT_EQ(memory_on_stage(seventy_billion(), {}, tensor, 0).states.total(),
            memory_on_stage(seventy_billion(), {}, pipeline, 3).states.total());
  Layout a, b;
  a.tensor = 4, a.pipeline = 2, a.data = 2, a.zero = 1;
  b.tensor = 2, b.pipeline = 4, b.data = 2, b.zero = 1;
  EXPECT_EQ(memory_on_stage(seventy_billion(), {}, a, 0).states.total(),
            memory_on_stage(seventy_billion(), {}, b, 0).states.total());
}

TEST(Identities, TensorParallelWithoutSequenceParallelismKeepsTenUndivided) {
  const LayerShape shape = {2048, 1, 12288, 96};
  EXPECT_DOUBLE_EQ(activation_factor(shape, 1, true, Recompute::none), 34 + 80);
  EXPECT_DOUBLE_EQ(activation_factor(shape, 8, true, Recompute::none), (34 + 80) / 8.0);
  EXPECT_DOUBLE_EQ(activation_factor(shape, 8, false, Recompute::none), 10 + 24 / 8.0 + 80 / 8.0);
  EXPECT_DOUBLE_EQ(activation_factor(shape, 8, false, Recompute::selective), 10 + 24 / 8.0);
  EXPECT_DOUBLE_EQ(activation_factor(shape, 8, false, Recompute::full), 2);
  EXPECT_DOUBLE_EQ(activation_factor(shape, 1, false, Recompute::none),
                   activation_factor(shape, 1, true, Recompute::none));
}

TEST(Identities, TheLlamaLayerCountsItsOwnWidths) {
  LayerShape shape = {4096, 1, 8192, 64};
  shape.query_width = 8192, shape.kv_width = 1024, shape.gated_ffn = 28672;
  EXPECT_DOUBLE_EQ(activation_factor(shape, 1, true, Recompute::selective), 8 + 4 + 0.5 + 28);
  EXPECT_DOUBLE_EQ(activation_factor(shape, 1, true, Recompute::none), 40.5 + 128);
  EXPECT_DOUBLE_EQ(activation_factor(shape, 8, true, Recompute::none), (40.5 + 128) / 8);
  EXPECT_DOUBLE_EQ(activation_factor(shape, 8, false, Recompute::selective), 8 + 32.5 / 8);
  EXPECT_DOUBLE_EQ(activation_factor(shape, 8, true, Recompute::full), 2 / 8.0);
}

TEST(Identities, EfficiencyDependsOnMicroBatchesPerStageInTheLimit) {
  const auto efficiency = [](int64_t p, int64_t m) {
    return pipeline_efficiency(Schedule::one_f_one_b, {p, m, 1});
  };
  for (int64_t ratio : {1, 2, 4, 8})
    EXPECT_NEAR(efficiency(100'000, 100'000 * ratio), static_cast<double>(ratio) / (ratio + 1.0), 1e-4);
}

TEST(Identities, InterleavingDividesTheBubble) {
  for (int64_t v : {1, 2, 4})
    EXPECT_DOUBLE_EQ(bubble_over_ideal(Schedule::interleaved, {8, 16, v}) * static_cast<double>(v),
                     bubble_over_ideal(Schedule::one_f_one_b, {8, 16, 1}));
}

struct Case {
  Schedule schedule;
  PipelineShape shape;
};

std::vector<Case> schedules() {
  std::vector<Case> cases;
  for (int64_t p : {1, 2, 4, 8})
    for (int64_t m : {p, 2 * p, 4 * p}) {
      for (Schedule s : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zb_h1})
        cases.push_back({s, {p, m, 1}});
      for (int64_t v : {2, 3})
        if (p > 1) cases.push_back({Schedule::interleaved, {p, m, v}});
    }
  return cases;
}

TEST(Timeline, TakesTheTimeAndTheMemoryOfTheFormulas) {
  for (const auto& [schedule, shape] : schedules()) {
    SCOPED_TRACE(fmt::format("{} p={} m={} v={}", to_string(schedule), shape.stages, shape.micro_batches,
                             shape.chunks));
    const Timeline timeline =
        run_pipeline(schedule, shape, std::vector<double>(static_cast<size_t>(shape.stages), 3.0));
    EXPECT_NEAR(timeline.end,
                3 * (static_cast<double>(shape.micro_batches) + bubble_micro_batches(schedule, shape)), 1e-9);
    EXPECT_NEAR(timeline.efficiency(), pipeline_efficiency(schedule, shape), 1e-12);
    for (int64_t stage = 0; stage < shape.stages; ++stage)
      EXPECT_EQ(timeline.most_in_flight(stage), chunks_in_flight(schedule, shape, stage)) << stage;
  }
}

TEST(Timeline, UnequalStages) {
  const std::vector<double> stages = {40, 42, 55, 40};
  EXPECT_NEAR(run_pipeline(Schedule::gpipe, {4, 8, 1}, stages).end, unbalanced_step_seconds(stages, 8), 1e-9);
  // 1F1B hides the stages behind the slowest: at least its work and the way to it, at most GPipe's time.
  const double one_f_one_b = run_pipeline(Schedule::one_f_one_b, {4, 8, 1}, stages).end;
  EXPECT_GE(one_f_one_b, 8 * 55 + 40 + 42 - 1e-9);
  EXPECT_LE(one_f_one_b, unbalanced_step_seconds(stages, 8) + 1e-9);
  EXPECT_DOUBLE_EQ(unbalanced_efficiency({40, 40, 40, 40}, 8),
                   pipeline_efficiency(Schedule::gpipe, {4, 8, 1}));
}

TEST(Timeline, Drawn) {
  const std::vector<double> stages(2, 3.0);
  EXPECT_EQ(draw(run_pipeline(Schedule::one_f_one_b, {2, 2, 1}, stages), 80),
            "stage  0 |F0 F1 .  .  B0 == .  B1 ==\n"
            "stage  1 |.  F0 B0 == F1 B1 == .  .\n");
}

TEST(Timeline, MicroBatchesForATargetAreTheLeast) {
  for (int64_t p : {2, 8, 16, 31})
    for (double target : {0.5, 0.8, 0.9, 0.95}) {
      const int64_t m = micro_batches_for(target, Schedule::one_f_one_b, {p, 1, 1});
      EXPECT_GE(pipeline_efficiency(Schedule::one_f_one_b, {p, m, 1}), target - 1e-12);
      EXPECT_LT(pipeline_efficiency(Schedule::one_f_one_b, {p, m - 1, 1}), target);
    }
}

TEST(Checkpoint, DalysIntervalIsWhereWasteIsLeast) {
  for (double cost : {1.0, 20.0, 300.0}) {
    const double best = daly_interval(cost, 10800);
    for (double factor : {0.9, 1.1})
      EXPECT_GT(waste(best * factor, cost, 10800), waste(best, cost, 10800)) << cost;
    EXPECT_LT(best, young_interval(cost, 10800));
  }
  EXPECT_DOUBLE_EQ(daly_interval(30'000, 10800), 10800);  // 2M and more: M
  EXPECT_DOUBLE_EQ(daly_interval(21'600, 10800), 10800);
  EXPECT_NEAR(young_interval(20, 10800), 657.27, 0.005);
}

TEST(Straggler, TheBoundLiesAboveTheExpectation) {
  EXPECT_NEAR(largest_normal_expected(1), 0, 1e-6);
  EXPECT_NEAR(largest_normal_expected(2), 1 / std::sqrt(M_PI), 1e-6);
  for (int64_t ranks : {8, 1024, 16384})
    EXPECT_GT(largest_normal_bound(ranks), largest_normal_expected(ranks));
}

TEST(Cache, TensorRanksBeyondTheHeadsHoldCopies) {
  const CacheShape llama2_70b = {80, 4096, 8, 128, 2};
  EXPECT_EQ(cache_bytes_per_sequence(llama2_70b, 1), int64_t{2} * 80 * 4096 * 8 * 128 * 2);
  EXPECT_EQ(cache_bytes_per_sequence(llama2_70b, 8) * 8, cache_bytes_per_sequence(llama2_70b, 1));
  EXPECT_EQ(cache_bytes_per_sequence(llama2_70b, 16), cache_bytes_per_sequence(llama2_70b, 8));
  EXPECT_EQ(largest_batch(100, 10, 95, 7), 0);
  EXPECT_EQ(largest_batch(100, 10, 40, 7), 7);
}

TEST(Batch, DerivesTheMissingOne) {
  EXPECT_EQ(complete_batch({std::nullopt, 4, 8, 2}).global, 64);
  EXPECT_EQ(complete_batch({64, std::nullopt, 8, 2}).data, 4);
  EXPECT_EQ(complete_batch({64, 4, std::nullopt, 2}).accumulation, 8);
  EXPECT_EQ(complete_batch({64, 4, 8, std::nullopt}).micro, 2);
  EXPECT_THROW(complete_batch({65, 4, std::nullopt, 2}), UserError);
  EXPECT_THROW(complete_batch({64, 4, std::nullopt, std::nullopt}), UserError);
  try {
    complete_batch({60, 4, 8, 2});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("4 * 8 * 2 = 64"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace muster::estimate
