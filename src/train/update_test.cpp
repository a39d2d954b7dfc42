// The ordered update against the right values of CASES section 1, and the optimizers against their formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "comm/testing.h"
#include "nn/ops/norm_of_gradient.h"
#include "nn/rig.h"
#include "train/optim/learning_rate.h"
#include "train/optim/update.h"
#include "train/zero/reducer.h"
#include "train/zero/values.h"

namespace muster::train {
namespace {

using namespace std::chrono_literals;

spec::OptimizerConfig plain_sgd() {
  spec::OptimizerConfig config;
  config.name = "sgd";
  config.weight_decay = 0;
  config.schedule = "constant";
  return config;
}

spec::Mesh data_mesh(int64_t size) {
  return {{size, 1, 1, 1, 1},
          {spec::Axis::tensor, spec::Axis::context, spec::Axis::data, spec::Axis::pipeline}};
}

// Parameters of a small model, all zero, and one step's way from gradients to an update.
struct Step {
  explicit Step(comm::Communicator& data, const spec::OptimizerConfig& config = plain_sgd(),
                at::ScalarType state = at::kFloat, at::ScalarType values = at::kFloat,
                nn::Formats formats = {})
      : run(at::kCPU, values, clock),
        table(nn::small_model(spec::Family::llama)),
        parameters(table, nn::one_rank(), run, 1, {}, formats),
        optimizer(config, parameters, run, {state}),
        reducer(parameters, data, run),
        totals(run, data) {
    for (const spec::ParameterRow& row : table.rows()) {
      parameters.weight(row);
      parameters.value(row).zero_();
      parameters.master_piece(row).zero_();
      parameters.gradient(row).zero_();
    }
  }
  // One micro-batch's sum of gradients over its tokens, the same for every element of the first parameter.
  void micro_batch(float gradient_sum, int64_t tokens) {
    first_gradient().add_(gradient_sum);
    totals.add_tokens(tokens);
  }
  UpdateResult finish(double clip = 0) {
    for (const spec::ParameterRow& row : table.rows()) parameters.weight(row)->accumulate();
    totals.start(run);
    for (int64_t unit = table.units() - 1; unit >= 0; --unit) reducer.unit_done(unit, true);
    reducer.finish();
    return ordered_update(run, {}, parameters, totals, optimizer, /*learning_rate=*/1, clip);
  }
  at::Tensor first_gradient() { return parameters.gradient(table.rows()[0]).view(-1); }
  at::Tensor first_value() { return parameters.value(table.rows()[0]).view(-1); }

  Clock clock;
  nn::Executor run;
  spec::ParameterTable table;
  nn::ParameterStore parameters;
  Optimizer optimizer;
  Reducer reducer;
  Totals totals;
};

spec::Mesh tensor_mesh(int64_t size) {
  return {{1, size, 1, 1, 1}, data_mesh(1).order()};
}

// Runs `body` as each of the ranks of a mesh of one axis, each a thread, over Gloo.
void as_ranks(const spec::Mesh& mesh, spec::Axis axis, const std::function<void(comm::Communicator&)>& body) {
  comm::as_ranks(mesh.world_size(), [&](const comm::World& world) {
    comm::Groups groups = comm::connect(mesh, world, "cpu", 20s, {20s});
    body(groups.on(axis));
  });
}

void as_ranks(int64_t size, const std::function<void(comm::Communicator&)>& body) {
  as_ranks(data_mesh(size), spec::Axis::data, body);
}

// A rank alone.
void alone(const std::function<void(comm::Communicator&)>& body) {
  comm::Groups groups = comm::without_peers(data_mesh(1), 0);
  body(groups.on(spec::Axis::data));
}

// B068, over steps: 512 updates by 2^-9 of a parameter of 1 are lost where it is rounded each time, and with
// a master in fp32 they are not.
TEST(OrderedUpdate, MastersAddUpWhatRoundingLoses) {
  const auto after = [](nn::Formats formats) {
    double value = 0;
    alone([&](comm::Communicator& data) {
      Step step(data, plain_sgd(), at::kFloat, at::kBFloat16, formats);
      step.parameters.master_piece(step.table.rows()[0]).fill_(1);
      step.parameters.round_masters(step.run);
      const int64_t units = step.table.units();
      for (int update = 0; update < 512; ++update) {
        Totals totals(step.run, data);
        totals.add_tokens(1);
        totals.start(step.run);
        step.parameters.begin_step();
        for (const spec::ParameterRow& row : step.table.rows()) {
          step.parameters.weight(row)->accumulate();
          step.parameters.gradient(row).fill_(-0x1p-9);
        }
        for (int64_t unit = units - 1; unit >= 0; --unit) step.reducer.unit_done(unit, true);
        step.reducer.finish();
        ordered_update(step.run, {}, step.parameters, totals, step.optimizer, 1, 0);
      }
      value = step.first_value()[0].item<double>();
    });
    return value;
  };
  for (const auto gradients : {at::kFloat, at::kBFloat16}) {
    EXPECT_EQ(after({.gradients = gradients, .master = at::kFloat}), 2);
    EXPECT_EQ(after({.gradients = gradients}), 1);
  }
}

// Plain SGD with rate 1 from zero: the update is the negative of the gradient that was applied.
TEST(OrderedUpdate, B001_TokensWeighAlikeOnAllRanks) {
  as_ranks(2, [](comm::Communicator& data) {
    Step step(data);
    data.rank() == 0 ? step.micro_batch(5 * 1.0f, 5) : step.micro_batch(7.0f, 1);
    const UpdateResult result = step.finish();
    EXPECT_EQ(result.tokens, 6);
    EXPECT_FLOAT_EQ(step.first_value()[0].item<float>(), -2.0f);
  });
}

TEST(OrderedUpdate, B001_TokensWeighAlikeInAllMicroBatches) {
  alone([](comm::Communicator& data) {
    Step step(data);
    step.micro_batch(5 * 1.0f, 5);
    step.micro_batch(7.0f, 1);
    step.finish();
    EXPECT_FLOAT_EQ(step.first_value()[0].item<float>(), -2.0f);
  });
}

TEST(OrderedUpdate, B009_AccumulationIsNoMovingAverage) {
  alone([](comm::Communicator& data) {
    Step step(data);
    for (int micro_batch = 0; micro_batch < 12; ++micro_batch) step.micro_batch(8 * 1.0f, 8);
    step.finish();
    EXPECT_FLOAT_EQ(step.first_value()[0].item<float>(), -1.0f);
  });
}

// The token count stands where a loss scale would: both divide once, before the norm and the clip.
TEST(OrderedUpdate, B011_ClipSeesTheUnscaledGradientOnce) {
  alone([](comm::Communicator& data) {
    Step step(data);
    step.totals.add_tokens(1024);
    step.first_gradient()[0] = 3 * 1024;
    step.first_gradient()[1] = 4 * 1024;
    const UpdateResult result = step.finish(/*clip=*/1.0);
    EXPECT_NEAR(result.grad_norm, 5.0, 1e-12);
    // torch's 1e-6 below the line keeps the clipped norm a little under 1.
    EXPECT_NEAR(step.first_value()[0].item<float>(), -0.6, 1e-6);
    EXPECT_NEAR(step.first_value()[1].item<float>(), -0.8, 1e-6);
  });
}

TEST(OrderedUpdate, B005_NormIsTheSameForEveryNumberOfReplicas) {
  for (int64_t size : {1, 2, 4})
    as_ranks(size, [&](comm::Communicator& data) {
      Step step(data);
      step.totals.add_tokens(1);
      if (data.rank() == 0) step.first_gradient()[0] = 3;
      if (data.rank() == size - 1) step.first_gradient()[7] = 4;
      step.totals.add_tokens(data.rank() == 0 ? 0 : -1);  // one token in all
      EXPECT_NEAR(step.finish().grad_norm, 5.0, 1e-12);
    });
}

// The norm of a gradient, by `size` tensor ranks: `split` is 3 in one element of each rank that holds another
// slice, over the root of their number; a norm's weight, which all ranks hold, is 4 in one.
void expect_norm_of_3_and_4(const spec::ModelSpec& model, const char* split, int64_t most_slices) {
  const spec::ParameterTable table(model);
  for (int64_t size : {1, 2, 4})
    as_ranks(tensor_mesh(size), spec::Axis::tensor, [&](comm::Communicator& peers) {
      const Clock clock;
      nn::Executor run(at::kCPU, at::kFloat, clock);
      nn::ParameterStore parameters(table, tensor_mesh(size), run, 1);
      for (const nn::Bucket& bucket : parameters.buckets()) bucket.gradient.zero_();
      const auto first = [&](const char* name) { return parameters.gradient(table.row(name)).view(-1)[0]; };
      first(split).fill_(3 / std::sqrt(static_cast<double>(std::min(size, most_slices))));
      first("model.layers.1.input_layernorm.weight").fill_(4);
      EXPECT_NEAR(std::sqrt(nn::sum_of_squares(run, nn::TensorGroup(peers), parameters)), 5.0, 1e-6);
    });
}

TEST(OrderedUpdate, B005_NormIsTheSameForEveryTensorGroup) {
  spec::ModelSpec model = nn::small_model(spec::Family::llama);
  model.vocab_size = 40;
  model.num_key_value_heads = 4;
  expect_norm_of_3_and_4(model, "model.layers.0.self_attn.q_proj.weight", 4);
}

// A key's weight of two heads, which neighbours share among four ranks.
TEST(OrderedUpdate, B005_NormCountsASharedHeadOnce) {
  expect_norm_of_3_and_4(nn::small_model(spec::Family::llama), "model.layers.0.self_attn.k_proj.weight", 2);
}

// A tensor that one rank owns and of which the other has nothing: both know its norm.
TEST(OrderedUpdate, B094_AnEmptyShardCountsNothing) {
  const spec::ParameterTable table(nn::small_model(spec::Family::llama));
  const spec::Mesh mesh = data_mesh(2);
  as_ranks(2, [&](comm::Communicator& peers) {
    const Clock clock;
    nn::Executor run(at::kCPU, at::kFloat, clock);
    const nn::ParameterStore parameters(table, mesh, run, 1, {&peers, true, true});
    for (const nn::Bucket& bucket : parameters.buckets()) bucket.gradient_piece.zero_();
    const at::Tensor own = parameters.gradient_piece(table.row("model.layers.0.input_layernorm.weight"));
    EXPECT_EQ(own.numel(), peers.rank() == 0 ? 24 : 0);
    if (own.numel() > 0) own[0].fill_(3), own[11].fill_(4);
    EXPECT_NEAR(std::sqrt(nn::sum_of_squares(run, {}, parameters)), 5.0, 1e-12);
  });
}

// CASES B003. A tied weight has one copy on a stage, and both uses add to it before anything of it is
// reduced, whatever is sharded; gradients of 1 and 2 at its first use and of 10 and 20 at its last are 16.5
// in the mean.
TEST(OrderedUpdate, B003_ATiedWeightIsReducedOnceBothUsesHaveAdded) {
  const spec::ParameterTable table(nn::small_model(spec::Family::gpt2));
  const spec::ParameterRow& tied = table.rows()[0];
  constexpr int kSteps = 10;
  for (int64_t stage : {0, 1, 2, 3}) {
    std::vector<at::Tensor> whole(2);
    as_ranks(2, [&](comm::Communicator& peers) {
      const Clock clock;
      nn::Executor run(at::kCPU, at::kFloat, clock);
      comm::Groups no_copies = comm::without_peers(data_mesh(1), 0);
      nn::ParameterStore parameters(
          table, data_mesh(2), run, 1,
          stage > 0 ? nn::Sharding{&peers, stage >= 2, stage >= 3} : nn::Sharding{});
      for (const spec::ParameterRow& row : table.rows()) parameters.value_piece(row).zero_();
      Optimizer optimizer(plain_sgd(), parameters, run, {});
      Reducer reducer(parameters, stage > 0 ? no_copies.on(spec::Axis::data) : peers, run);
      const auto write = [&](const spec::ParameterRow& row, double value) {
        const at::Tensor gradient = parameters.gradient(row);
        parameters.weight(row)->accumulate() ? gradient.add_(value) : gradient.fill_(value);
      };
      for (int step = 1; step <= kSteps; ++step) {
        parameters.begin_step();
        Totals totals(run, peers);
        totals.add_tokens(1);
        totals.start(run);
        reducer.use(0);
        write(tied, peers.rank() == 0 ? 10 : 20);
        for (int64_t unit = table.units() - 1; unit >= 0; --unit) {
          reducer.use(unit);
          for (const spec::ParameterRow& row : table.rows())
            if (row.unit == unit) write(row, &row != &tied ? 0 : peers.rank() == 0 ? 1 : 2);
          reducer.unit_done(unit, /*last=*/true);
        }
        reducer.finish();
        ordered_update(run, {}, parameters, totals, optimizer, /*learning_rate=*/1, /*clip=*/0);
        const at::Tensor own = parameters.value_piece(tied);
        EXPECT_TRUE(at::equal(own, at::full_like(own, -16.5 * step))) << "stage " << stage;
      }
      Values values(parameters, {});
      std::vector<int64_t> units(static_cast<size_t>(table.units()));
      std::iota(units.begin(), units.end(), 0);
      values.begin(units);
      for (int64_t unit : units) values.use(unit);
      whole[static_cast<size_t>(peers.rank())] = parameters.value(tied).clone();
    });
    EXPECT_TRUE(at::equal(whole[0], whole[1])) << "stage " << stage;
  }
}

TEST(OrderedUpdate, B066_S15_OneRanksInfinitySkipsAllAlike) {
  as_ranks(2, [](comm::Communicator& data) {
    for (float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      Step step(data);
      step.micro_batch(1, 1);
      if (data.rank() == 0) step.first_gradient()[3] = bad;
      const UpdateResult result = step.finish();
      EXPECT_TRUE(result.skipped);
      EXPECT_EQ(step.first_value().abs().sum().item<float>(), 0);
      EXPECT_EQ(step.optimizer.updates(), 0);
    }
  });
}

TEST(OrderedUpdate, NoTokenIsNoUpdate) {
  alone([](comm::Communicator& data) {
    Step step(data);
    step.micro_batch(0, 0);
    const UpdateResult result = step.finish();
    EXPECT_TRUE(result.skipped);
    EXPECT_EQ(result.loss, 0);
    EXPECT_EQ(step.optimizer.updates(), 0);
  });
}

TEST(Reducer, AUnitThatWasNeverDoneIsABug) {
  alone([](comm::Communicator& data) {
    Step step(data);
    const int64_t last = step.table.units() - 1;
    for (const spec::ParameterRow& row : step.table.rows())
      if (row.unit == last) step.parameters.weight(row)->accumulate();
    step.reducer.unit_done(last, true);
    EXPECT_THROW(step.reducer.finish(), Bug);
  });
}

TEST(Reducer, AParameterWithoutGradientIsABug) {
  alone([](comm::Communicator& data) {
    Step step(data);
    EXPECT_THROW(step.reducer.unit_done(step.table.units() - 1, true), Bug);
  });
}

// The sixth update of CASES B021: gradients 1 five times, then -1; beta 0.9 and 0.95, no epsilon, no decay.
TEST(Optimizer, AdamWKeepsItsMoments) {
  alone([](comm::Communicator& data) {
    spec::OptimizerConfig config;
    config.betas = {0.9, 0.95};
    config.eps = 0;
    config.weight_decay = 0;
    Step step(data, config);
    const auto update = [&](double gradient) {
      const double before = step.first_value()[0].item<double>();
      for (const nn::Bucket& bucket : step.parameters.buckets()) bucket.gradient.fill_(gradient);
      step.optimizer.step(step.run, 1.0, 1.0);
      return step.first_value()[0].item<double>() - before;
    };
    for (int at = 0; at < 5; ++at) EXPECT_NEAR(update(1), -1, 1e-6);
    EXPECT_NEAR(update(-1), -0.573159, 1e-6);
  });
}

// Against the formula in fp64 over moments that are rounded after each update: 1 part in 2^20 of fp32
// arithmetic, and an updated moment may fall on the other side of a tie.
TEST(Optimizer, AdamWRoundsItsMomentsToBfloat16) {
  alone([](comm::Communicator& data) {
    spec::OptimizerConfig config;
    config.weight_decay = 0;
    Step step(data, config, at::kBFloat16);
    double m = 0, v = 0, value = 0;
    const auto rounded = [](double x) { return at::full({}, x).to(at::kBFloat16).item<double>(); };
    for (int at = 1; at <= 20; ++at) {
      const double g = 0.3 + 0.1 * std::sin(at);
      for (const nn::Bucket& bucket : step.parameters.buckets()) bucket.gradient.fill_(4 * g);
      step.optimizer.step(step.run, 0.01, /*divisor=*/4.0);
      m = 0.9 * m + 0.1 * g, v = 0.95 * v + 0.05 * g * g;
      value -= 0.01 * m / (1 - std::pow(0.9, at)) / (std::sqrt(v / (1 - std::pow(0.95, at))) + 1e-8);
      m = rounded(m), v = rounded(v);
      EXPECT_NEAR(step.first_value()[5].item<double>(), value, 2e-7) << at;
    }
    const auto states =
        step.optimizer.states_of(step.table.rows()[0], step.parameters.value(step.table.rows()[0]));
    ASSERT_EQ(states.size(), 2u);
    EXPECT_EQ(states[1].local.scalar_type(), at::kBFloat16);
    EXPECT_EQ(states[1].local.view(-1)[5].item<double>(), v);
  });
}

TEST(Optimizer, MatricesDecayAndNormsDoNotUnlessAsked) {
  for (const bool all : {false, true})
    alone([&](comm::Communicator& data) {
      spec::OptimizerConfig config = plain_sgd();
      config.weight_decay = 0.5;
      config.weight_decay_on = all ? "all" : "matrices";
      Step step(data, config);
      for (const spec::ParameterRow& row : step.table.rows()) step.parameters.value(row).fill_(1);
      step.optimizer.step(step.run, 0.1, 1.0);
      for (const spec::ParameterRow& row : step.table.rows()) {
        const float expected = all || row.shape.size() == 2 ? 0.95f : 1.0f;
        EXPECT_FLOAT_EQ(step.parameters.value(row).view(-1)[0].item<float>(), expected) << row.name;
      }
    });
}

TEST(Optimizer, MomentumIsTorchs) {
  alone([](comm::Communicator& data) {
    spec::OptimizerConfig config = plain_sgd();
    config.momentum = 0.9;
    Step step(data, config);
    for (int at = 0; at < 3; ++at) {
      for (const nn::Bucket& bucket : step.parameters.buckets()) bucket.gradient.fill_(4);
      step.optimizer.step(step.run, 1.0, /*divisor=*/2.0);
    }
    // 2, then 0.9 * 2 + 2, then 0.9 * 3.8 + 2
    EXPECT_FLOAT_EQ(step.first_value()[0].item<float>(), -(2 + 3.8 + 5.42));
  });
}

spec::OptimizerConfig schedule(const std::string& name, int64_t warmup) {
  spec::OptimizerConfig config;
  config.schedule = name;
  config.learning_rate = 1e-3;
  config.minimum_learning_rate = 1e-4;
  config.warmup_steps = warmup;
  return config;
}

TEST(LearningRate, B015_WarmUpIsAFunctionOfTheUpdate) {
  for (int64_t step = 1; step <= 10; ++step)
    EXPECT_NEAR(learning_rate(schedule("cosine", 10), step, 100), 1e-4 * static_cast<double>(step), 1e-18);
  EXPECT_NEAR(learning_rate(schedule("cosine", 10), 5, 100), 5e-4, 1e-18);
}

TEST(LearningRate, EachScheduleAtItsEndsAndMiddle) {
  EXPECT_EQ(learning_rate(schedule("constant", 0), 77, 100), 1e-3);
  EXPECT_NEAR(learning_rate(schedule("linear", 20), 60, 100), 5.5e-4, 1e-18);
  EXPECT_NEAR(learning_rate(schedule("linear", 20), 100, 100), 1e-4, 1e-18);
  EXPECT_NEAR(learning_rate(schedule("cosine", 20), 60, 100), 5.5e-4, 1e-18);
  EXPECT_NEAR(learning_rate(schedule("cosine", 20), 40, 100), 1e-4 + 9e-4 * (1 + std::sqrt(0.5)) / 2, 1e-15);
  EXPECT_NEAR(learning_rate(schedule("cosine", 20), 100, 100), 1e-4, 1e-18);
  EXPECT_EQ(learning_rate(schedule("wsd", 5), 90, 100), 1e-3);
  EXPECT_NEAR(learning_rate(schedule("wsd", 5), 95, 100), 5.5e-4, 1e-18);
  EXPECT_NEAR(learning_rate(schedule("wsd", 5), 100, 100), 1e-4, 1e-18);
}

}  // namespace
}  // namespace muster::train
