// Muon: its iteration against the singular value decomposition, the way of pieces to whole matrices and back
// on every kind of mesh, and the update against its formula.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include "comm/testing.h"
#include "nn/rig.h"
#include "nn/test_support.h"
#include "spec/mesh/local_shape.h"
#include "train/optim/optimizer.h"
#include "train/optim/orthogonalize.h"

namespace muster::train {
namespace {

using namespace std::chrono_literals;

const Clock kClock;

at::Tensor orthogonalized(const at::Tensor& matrix, int64_t steps = 5) {
  nn::Executor run(at::kCPU, matrix.scalar_type(), kClock);
  const at::Tensor copy = matrix.clone();
  orthogonalize(run, copy, steps);
  return copy;
}

struct Decomposition {
  at::Tensor u, s, vh;
};
Decomposition decompose(const at::Tensor& matrix) {
  auto [u, s, vh] = at::linalg_svd(matrix.to(at::kDouble), /*full_matrices=*/false);
  return {u, s, vh};
}

// The same polynomial, of the singular values alone.
at::Tensor expected_of(const at::Tensor& matrix, int64_t steps = 5) {
  Decomposition d = decompose(matrix);
  at::Tensor s = d.s / d.s.norm();
  for (int64_t step = 0; step < steps; ++step) s = 3.4445 * s - 4.7750 * s.pow(3) + 2.0315 * s.pow(5);
  return d.u.mul(s).matmul(d.vh);
}

constexpr std::pair<int64_t, int64_t> kShapes[] = {{48, 48}, {64, 17}, {17, 64}, {1, 1},
                                                   {1, 9},   {9, 1},   {3, 200}};

TEST(Orthogonalize, IsThePolynomialOfTheSingularValues) {
  for (const auto& [rows, columns] : kShapes)
    for (int64_t steps : {1, 5}) {
      const at::Tensor matrix = nn::normal({rows, columns}, at::kDouble, 7);
      EXPECT_LE(nn::relative_error(orthogonalized(matrix, steps), expected_of(matrix, steps)), 1e-12)
          << rows << " x " << columns;
      EXPECT_LE(nn::relative_error(orthogonalized(matrix.to(at::kFloat), steps), expected_of(matrix, steps)),
                orthogonalize_condition(steps) * 0x1p-23)
          << rows << " x " << columns;
    }
}

// A matrix of full rank becomes about U V^T: the same directions, and singular values in the band.
TEST(Orthogonalize, BringsSingularValuesIntoItsBand) {
  for (const auto& [rows, columns] : kShapes) {
    const Decomposition before = decompose(nn::normal({rows, columns}, at::kDouble, 3));
    const int64_t rank = before.s.size(0);
    const at::Tensor s = at::linspace(1.0, 0.05, rank, at::kDouble);
    const at::Tensor after = orthogonalized(before.u.mul(s).matmul(before.vh));
    const at::Tensor seen = before.u.t().matmul(after).matmul(before.vh.t());
    EXPECT_LE((seen - at::diag(seen.diagonal())).abs().max().item<double>(), 1e-12);
    EXPECT_GE(seen.diagonal().min().item<double>(), 0.65) << rows << " x " << columns;
    EXPECT_LE(seen.diagonal().max().item<double>(), 1.25) << rows << " x " << columns;
  }
}

TEST(Orthogonalize, ZeroStaysAndSizeDoesNotMatter) {
  EXPECT_EQ(orthogonalized(at::zeros({5, 3})).abs().max().item<float>(), 0);
  const at::Tensor matrix = nn::normal({12, 7}, at::kFloat, 5);
  for (double size : {0x1p-100, 0x1p60})
    EXPECT_LE(nn::relative_error(orthogonalized(matrix.mul(size)), orthogonalized(matrix)),
              orthogonalize_condition(5) * 0x1p-23);
}

spec::Mesh mesh_of(int64_t data, int64_t tensor, int64_t context, int64_t replicas) {
  return {{data, tensor, context, 1, 1}, nn::one_rank().order(), replicas};
}

struct Layout {
  spec::Family family;
  int64_t data, tensor, context, replicas, stage;
};

// What stands in a gradient: which element of which parameter it is.
at::Tensor labels(const spec::ParameterTable& table, const spec::ParameterRow& row) {
  const auto number = static_cast<double>(&row - table.rows().data());
  return at::arange(row.elements(), at::kDouble).add_(number * 1e6).view(row.shape);
}

// One rank's parameters on a mesh, each gradient its label.
struct Labelled {
  Labelled(const spec::ParameterTable& table, const spec::Mesh& mesh, const Layout& layout,
           const comm::World& world)
      : mesh(mesh),
        rank(world.rank),
        groups(comm::connect(mesh, world, "cpu", 20s, {20s, true})),
        run(at::kCPU, at::kDouble, kClock),
        parameters(table, mesh, run, 1, sharding(layout.stage)) {
    for (const nn::Bucket& bucket : parameters.buckets()) bucket.gradient_piece.zero_();
    for (const spec::ParameterRow& row : table.rows()) parameters.gradient_piece(row).copy_(owned_of(row));
  }
  nn::Sharding sharding(int64_t stage) {
    if (stage == 0) return {};
    return {&groups.on(spec::Span::shard), stage >= 2, stage >= 3};
  }
  WholeMatrices matrices(int64_t stage) {
    return {parameters, mesh, groups.on(stage > 0 ? spec::Span::replicate : spec::Span::tokens),
            groups.on(spec::Axis::tensor)};
  }
  // This rank's labels of a parameter.
  at::Tensor owned_of(const spec::ParameterRow& row) const {
    const at::Tensor part = at::zeros(spec::local_shape(row, mesh), at::kDouble);
    const spec::LocalPart place = spec::local_part(row, mesh, rank);
    for (const spec::IndexRun& run : place.runs)
      part.narrow(place.dim, run.local, run.size)
          .copy_(labels(parameters.table(), row).narrow(place.dim, run.global, run.size));
    const nn::FlatRange own = parameters.owned(row);
    return part.view({-1}).narrow(0, own.first, own.size);
  }

  spec::Mesh mesh;
  int64_t rank;
  comm::Groups groups;
  nn::Executor run;
  nn::ParameterStore parameters;
};

// Each matrix is whole on one rank of all, once, and every piece of every copy gets what became of it; no
// other parameter is touched.
void expect_whole_once(const spec::ModelSpec& model, const Layout& layout) {
  const spec::ParameterTable table(model);
  const spec::Mesh mesh = mesh_of(layout.data, layout.tensor, layout.context, layout.replicas);
  std::mutex mutex;
  std::map<std::string, int> times;
  comm::as_ranks(mesh.world_size(), [&](const comm::World& world) {
    Labelled rank(table, mesh, layout, world);
    rank.matrices(layout.stage).apply(rank.run, [&](const at::Tensor& matrix) {
      const auto number = static_cast<size_t>(matrix[0][0].item<double>() / 1e6);
      const spec::ParameterRow& row = table.rows().at(number);
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(matrix.equal(labels(table, row))) << row.name;
      ++times[row.name];
      at::Tensor(matrix).neg_();
    });
    const std::lock_guard lock(mutex);
    for (const spec::ParameterRow& row : table.rows()) {
      const at::Tensor before = rank.owned_of(row);
      EXPECT_TRUE(rank.parameters.gradient_piece(row).equal(row.is_linear() ? before.neg() : before))
          << row.name << " on rank " << world.rank;
    }
  });
  for (const spec::ParameterRow& row : table.rows()) EXPECT_EQ(times[row.name], row.is_linear()) << row.name;
}

class WholeMatricesOn : public ::testing::TestWithParam<Layout> {};

TEST_P(WholeMatricesOn, EachMatrixIsWholeOnce) {
  spec::ModelSpec model = nn::small_model(GetParam().family);
  if (model.family == spec::Family::gpt2) model.intermediate_size = 27;
  expect_whole_once(model, GetParam());
}

constexpr spec::Family kLlama = spec::Family::llama, kGpt2 = spec::Family::gpt2;
// Two key-value heads over four tensor ranks are shared by neighbours; 14 and 8 matrices divide over few.
INSTANTIATE_TEST_SUITE_P(Meshes, WholeMatricesOn,
                         ::testing::Values(Layout{kLlama, 1, 1, 1, 1, 0}, Layout{kGpt2, 3, 1, 1, 1, 0},
                                           Layout{kLlama, 1, 2, 1, 1, 0}, Layout{kLlama, 1, 4, 1, 1, 0},
                                           Layout{kGpt2, 1, 3, 1, 1, 0}, Layout{kLlama, 2, 2, 1, 1, 0},
                                           Layout{kLlama, 5, 1, 1, 1, 1}, Layout{kGpt2, 2, 1, 2, 1, 2},
                                           Layout{kGpt2, 2, 3, 1, 1, 3}, Layout{kLlama, 4, 1, 1, 2, 3},
                                           Layout{kLlama, 4, 2, 1, 2, 2}));

// Matrices of one element, and ranks that own nothing of most of them.
TEST(WholeMatrices, B094_EmptyShardsAndOneElement) {
  spec::ModelSpec model = nn::small_model(kGpt2);
  model.hidden_size = model.num_attention_heads = model.intermediate_size = 1;
  model.num_key_value_heads = model.head_dim = 0;
  spec::complete(model);
  for (int64_t stage : {1, 3}) expect_whole_once(model, {kGpt2, 6, 1, 1, 2, stage});
}

spec::OptimizerConfig muon() {
  spec::OptimizerConfig config;
  config.name = "muon";
  config.momentum = 0.9;
  config.weight_decay = 0.5;
  return config;
}

// A model alone, and its optimizer.
struct Alone {
  explicit Alone(const spec::OptimizerConfig& config)
      : groups(comm::without_peers(nn::one_rank(), 0)),
        table(nn::small_model(kLlama)),
        mesh(nn::one_rank()),
        run(at::kCPU, at::kDouble, kClock),
        parameters(table, mesh, run, 1),
        optimizer(
            config, parameters, run, {at::kDouble},
            WholeMatrices(parameters, mesh, groups.on(spec::Axis::data), groups.on(spec::Axis::tensor))) {
    for (const spec::ParameterRow& row : table.rows()) parameters.value(row).copy_(start(row));
  }
  at::Tensor start(const spec::ParameterRow& row) const { return nn::normal(row.shape, at::kDouble, 11); }
  static at::Tensor gradient(const spec::ParameterRow& row, uint64_t step) {
    return nn::normal(row.shape, at::kDouble, 100 + step);
  }
  void step(uint64_t number, double divisor) {
    for (const spec::ParameterRow& row : table.rows())
      parameters.gradient(row).copy_(gradient(row, number).mul_(divisor));
    optimizer.step(run, 0.01, divisor);
  }

  comm::Groups groups;
  spec::ParameterTable table;
  spec::Mesh mesh;
  nn::Executor run;
  nn::ParameterStore parameters;
  Optimizer optimizer;
};

TEST(Muon, IsItsFormulaOnMatricesAndAdamWOnTheRest) {
  for (const bool nesterov : {true, false}) {
    spec::OptimizerConfig config = muon(), adamw = muon();
    config.nesterov = nesterov;
    adamw.name = "adamw";
    Alone one(config), other(adamw);
    for (uint64_t step = 1; step <= 3; ++step) one.step(step, 4), other.step(step, 4);
    for (const spec::ParameterRow& row : one.table.rows()) {
      at::Tensor expected = other.parameters.value(other.table.row(row.name));
      if (row.is_linear()) {
        expected = one.start(row);
        at::Tensor momentum = at::zeros_like(expected);
        const double size = 0.2 * std::sqrt(std::max(row.shape[0], row.shape[1]));
        for (uint64_t step = 1; step <= 3; ++step) {
          const at::Tensor gradient = Alone::gradient(row, step);
          momentum = 0.9 * momentum + gradient;
          const at::Tensor update = expected_of(nesterov ? gradient + 0.9 * momentum : momentum);
          expected = expected - 0.01 * (size * update + 0.5 * expected);
        }
      }
      EXPECT_LE(nn::relative_error(one.parameters.value(row), expected), 1e-12) << row.name;
    }
  }
}

TEST(Muon, KeepsOneStateForAMatrixAndTwoForTheRest) {
  Alone alone(muon());
  for (const spec::ParameterRow& row : alone.table.rows()) {
    const auto states = alone.optimizer.states_of(row, alone.parameters.value(row));
    ASSERT_EQ(states.size(), row.is_linear() ? 1u : 2u) << row.name;
    for (const Optimizer::State& state : states)
      EXPECT_EQ(state.local.sizes(), row.shape) << row.name << state.name;
  }
}

}  // namespace
}  // namespace muster::train
