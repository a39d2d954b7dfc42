// Every gradient of every family, in fp64: against autograd over an independent statement of the models, and
// where dropout draws masks, against finite differences.
#include "nn/transformer.h"

#include <torch/csrc/autograd/autograd.h>

#include "nn/oracle.h"
#include "nn/rig.h"
#include "nn/test_support.h"

namespace muster::nn {
namespace {

// A length divisible by 4: see tiled_attention.h on threads.
constexpr int64_t kLength = 12, kSequences = 6;

struct Case {
  const char* name;
  spec::ModelSpec model;
  int64_t loss_chunk_tokens = 0;
  int64_t micro_batches = 1;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

// Numbers of a size at which every path carries weight; norms around 1.
void fill(ParameterStore& parameters) {
  uint64_t seed = 1;
  for (const spec::ParameterRow& row : parameters.table().rows()) {
    const double center = row.role == spec::Role::norm_weight ? 1 : 0;
    parameters.value(row).copy_(0.3 * normal(row.shape, at::kDouble, seed++) + center);
  }
}

// Random ids; every fourth target is not counted, and none of the third sequence's.
MicroBatch whole_batch(const spec::ModelSpec& model) {
  const int64_t rows = kSequences * kLength;
  MicroBatch batch{integers(0, model.vocab_size, rows, 1), integers(0, model.vocab_size, rows, 2),
                   whole_sequences(kSequences, kLength), 5};
  const at::Tensor row = at::arange(rows);
  const at::Tensor ignored = row.remainder(4).eq(1).logical_or(row.div(kLength, "floor").eq(2));
  batch.targets_N.masked_fill_(ignored, -100);
  return batch;
}

MicroBatch part(const MicroBatch& whole, int64_t which, int64_t parts) {
  const int64_t sequences = kSequences / parts, rows = sequences * kLength;
  return {whole.ids_N.narrow(0, which * rows, rows), whole.targets_N.narrow(0, which * rows, rows),
          whole_sequences(sequences, kLength, which * sequences), whole.step};
}

// One step's sum of losses; gradients are left in the store.
double run_step(Rig& rig, const MicroBatch& whole, int64_t micro_batches) {
  const at::Tensor loss = at::zeros({1}, at::kDouble);
  rig.parameters.begin_step();
  for (int64_t which = 0; which < micro_batches; ++which) {
    const MicroBatch batch = part(whole, which, micro_batches);
    UnitAccess access;
    Transformer::Saved saved = rig.transformer.forward(rig.run, batch, loss, access);
    rig.transformer.backward(rig.run, batch, saved, access);
  }
  for (const Bucket& bucket : rig.parameters.buckets()) rig.parameters.check_written(bucket);
  return loss.item<double>();
}

Named values(Rig& rig, bool leaves) {
  Named named;
  for (const spec::ParameterRow& row : rig.table.rows())
    named[row.name] = rig.parameters.value(row).clone().requires_grad_(leaves);
  return named;
}

at::Tensor by_sequence(const at::Tensor& x_N) {
  return x_N.view({-1, kLength}).to(at::kLong);
}

std::vector<Case> cases() {
  const spec::ModelSpec llama = small_model(spec::Family::llama), gpt2 = small_model(spec::Family::gpt2);
  spec::ModelSpec tied = llama, biased = llama, grouped = llama, plain = llama, wide = llama;
  tied.tie_word_embeddings = true;
  biased.attention_bias = true;
  grouped.num_key_value_heads = 1;
  plain.num_key_value_heads = 4;
  wide.head_dim = 10;  // heads * head_dim is not hidden_size
  return {{"llama", llama},
          {"llama_tied", tied},
          {"llama_tied_3", tied, 16, 3},
          {"llama_biased", biased},
          {"llama_biased_3", biased, 7, 3},
          {"llama_multi_query", grouped},
          {"llama_no_groups", plain},
          {"llama_wide_heads", wide},
          {"llama_3_micro_batches", llama, 0, 3},
          {"llama_chunks", llama, 7},
          {"gpt2", gpt2},
          {"gpt2_chunks", gpt2, 7},
          {"gpt2_3_micro_batches", gpt2, 5, 3}};
}

class Gradients : public ::testing::TestWithParam<Case> {};

TEST_P(Gradients, EqualAutogradOfTheOracle) {
  const Case& c = GetParam();
  Rig rig(c.model, {.loss_chunk_tokens = c.loss_chunk_tokens, .length = kLength});
  fill(rig.parameters);
  const MicroBatch whole = whole_batch(c.model);
  const double loss = run_step(rig, whole, c.micro_batches);

  const Named leaves = values(rig, true);
  const at::Tensor right =
      oracle_loss(c.model, leaves, by_sequence(whole.ids_N), by_sequence(whole.targets_N));
  torch::autograd::backward({right}, {});
  EXPECT_NEAR(loss, right.item<double>(), 1e-12 * right.item<double>());
  for (const spec::ParameterRow& row : rig.table.rows())
    EXPECT_LE(relative_error(rig.parameters.gradient(row), leaves.at(row.name).grad()), 1e-11) << row.name;
}

// The slope of the loss along a random direction, by the gradients and by central differences, whose error is
// of the order of step^2.
TEST_P(Gradients, EqualFiniteDifferencesWithDropout) {
  const Case& c = GetParam();
  Rig rig(c.model, {.dropout = 0.3, .seed = 9, .loss_chunk_tokens = c.loss_chunk_tokens, .length = kLength});
  fill(rig.parameters);
  const MicroBatch whole = whole_batch(c.model);
  constexpr double kStep = 1e-5;
  for (uint64_t direction = 0; direction < 2; ++direction) {
    run_step(rig, whole, c.micro_batches);
    double slope = 0;
    std::vector<at::Tensor> along;
    for (const spec::ParameterRow& row : rig.table.rows()) {
      along.push_back(normal(row.shape, at::kDouble, 1000 * direction + along.size()));
      slope += (rig.parameters.gradient(row) * along.back()).sum().item<double>();
    }
    const auto loss_at = [&](double move) {
      for (size_t i = 0; i < along.size(); ++i)
        rig.parameters.value(rig.table.rows()[i]).add_(along[i], move);
      return run_step(rig, whole, c.micro_batches);
    };
    // The five-point rule: its error falls with the fourth power of the step, so that the step may be long
    // enough for rounding of the loss to vanish beside it.
    const double near_ahead = loss_at(kStep), far_ahead = loss_at(kStep);
    const double near_behind = loss_at(-3 * kStep), far_behind = loss_at(-kStep);
    loss_at(2 * kStep);
    const double measured = (8 * (near_ahead - near_behind) - (far_ahead - far_behind)) / (12 * kStep);
    EXPECT_NEAR(measured / slope, 1, 1e-6) << "direction " << direction;
  }
}

// Masks are drawn by logical position: how sequences are cut into micro-batches moves no draw.
TEST_P(Gradients, DropoutDoesNotSeeMicroBatches) {
  const Case& c = GetParam();
  Rig rig(c.model, {.dropout = 0.3, .seed = 9, .length = kLength});
  fill(rig.parameters);
  const MicroBatch whole = whole_batch(c.model);
  const double once = run_step(rig, whole, 1);
  Named gradients;
  for (const spec::ParameterRow& row : rig.table.rows())
    gradients[row.name] = rig.parameters.gradient(row).clone();
  const double split = run_step(rig, whole, 6);
  EXPECT_NEAR(split, once, 1e-12 * once);
  for (const spec::ParameterRow& row : rig.table.rows())
    EXPECT_LE(relative_error(rig.parameters.gradient(row), gradients[row.name]), 1e-11) << row.name;
}

INSTANTIATE_TEST_SUITE_P(Models, Gradients, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// Documents packed into one sequence give what each gives alone, from position 0.
TEST_P(Gradients, PackedDocumentsAreDocumentsAlone) {
  const Case& c = GetParam();
  Rig rig(c.model, {.loss_chunk_tokens = c.loss_chunk_tokens, .length = kLength});
  fill(rig.parameters);
  MicroBatch packed = whole_batch(c.model);
  const std::vector<spec::Stretch> documents{{0, 5}, {5, 1}, {6, 6}};
  packed.positions = make_positions(std::vector(kSequences, documents), kLength, 0, {});
  const auto step = [&](const std::vector<MicroBatch>& batches) {
    const at::Tensor loss = at::zeros({1}, at::kDouble);
    rig.parameters.begin_step();
    for (const MicroBatch& batch : batches) {
      UnitAccess access;
      Transformer::Saved saved = rig.transformer.forward(rig.run, batch, loss, access);
      rig.transformer.backward(rig.run, batch, saved, access);
    }
    return loss.item<double>();
  };
  std::vector<MicroBatch> alone;
  for (int64_t sequence = 0; sequence < kSequences; ++sequence)
    for (const spec::Stretch& d : documents)
      alone.push_back({packed.ids_N.narrow(0, sequence * kLength + d.first, d.size),
                       packed.targets_N.narrow(0, sequence * kLength + d.first, d.size),
                       whole_sequences(1, d.size), packed.step});
  const double right = step(alone);
  Named gradients;
  for (const spec::ParameterRow& row : rig.table.rows())
    gradients[row.name] = rig.parameters.gradient(row).clone();
  EXPECT_NEAR(step({packed}), right, 1e-12 * right);
  for (const spec::ParameterRow& row : rig.table.rows())
    EXPECT_LE(relative_error(rig.parameters.gradient(row), gradients[row.name]), 1e-11) << row.name;
}

class Families : public ::testing::TestWithParam<spec::Family> {};

TEST_P(Families, DropoutChangesWithStepAndSeedAndNotInEvaluation) {
  const spec::ModelSpec model = small_model(GetParam());
  MicroBatch whole = whole_batch(model);
  Rig rig(model, {.dropout = 0.3, .seed = 9, .length = kLength});
  Rig other(model, {.dropout = 0.3, .seed = 10, .length = kLength}), without(model, {.length = kLength});
  for (Rig* r : {&rig, &other, &without}) fill(r->parameters);
  const double loss = run_step(rig, whole, 1);
  EXPECT_EQ(run_step(rig, whole, 1), loss);
  EXPECT_NE(run_step(other, whole, 1), loss);
  const at::Tensor evaluated = at::zeros({1}, at::kDouble);
  UnitAccess access;
  rig.transformer.evaluate(rig.run, whole, evaluated, access);
  EXPECT_NEAR(evaluated.item<double>(), run_step(without, whole, 1), 1e-10);
  whole.step = 6;
  EXPECT_NE(run_step(rig, whole, 1), loss);
}

// CASES B023: evaluation leaves no trace in training.
TEST_P(Families, B023EvaluationTouchesNoGradientAndNoValue) {
  const spec::ModelSpec model = small_model(GetParam());
  const MicroBatch whole = whole_batch(model);
  Rig rig(model, {.dropout = 0.3, .seed = 9, .length = kLength});
  fill(rig.parameters);
  run_step(rig, whole, 1);
  Tensors before;
  for (const spec::ParameterRow& row : rig.table.rows())
    before.insert(before.end(), {rig.parameters.value(row).clone(), rig.parameters.gradient(row).clone()});
  const at::Tensor loss = at::zeros({1}, at::kDouble);
  UnitAccess access;
  rig.transformer.evaluate(rig.run, whole, loss, access);
  size_t at = 0;
  for (const spec::ParameterRow& row : rig.table.rows()) {
    EXPECT_TRUE(rig.parameters.value(row).equal(before[at++])) << row.name;
    EXPECT_TRUE(rig.parameters.gradient(row).equal(before[at++])) << row.name;
  }
}

TEST_P(Families, NextTokenLogitsAreTheOraclesLast) {
  const spec::ModelSpec model = small_model(GetParam());
  Rig rig(model, {.length = kLength});
  fill(rig.parameters);
  for (int64_t length : {1, 7}) {
    const at::Tensor ids = integers(0, model.vocab_size, length, 3);
    const at::Tensor logits = rig.transformer.next_token_logits(rig.run, ids);
    const at::Tensor right = oracle_logits(model, values(rig, false), ids.to(at::kLong).unsqueeze(0));
    EXPECT_LE(relative_error(logits, right.select(1, length - 1)), 1e-12) << length;
  }
}

TEST_P(Families, UnitsAreLeftLastFirstWithTheirGradientsComplete) {
  const spec::ModelSpec model = small_model(GetParam());
  const MicroBatch whole = whole_batch(model);
  Rig rig(model, {.length = kLength});
  fill(rig.parameters);
  std::vector<int64_t> order;
  Named at_exit;
  rig.parameters.begin_step();
  const at::Tensor loss = at::zeros({1}, at::kDouble);
  struct Exits : UnitAccess {
    std::function<void(int64_t)> done;
    void gradients_done(int64_t unit) override { done(unit); }
  } exits;
  exits.done = [&](int64_t unit) {
    order.push_back(unit);
    for (const spec::ParameterRow& row : rig.table.rows())
      if (row.unit == unit) at_exit[row.name] = rig.parameters.gradient(row).clone();
  };
  Transformer::Saved saved = rig.transformer.forward(rig.run, whole, loss, exits);
  rig.transformer.backward(rig.run, whole, saved, exits);
  EXPECT_EQ(order, (std::vector<int64_t>{3, 2, 1, 0}));
  for (const spec::ParameterRow& row : rig.table.rows())
    EXPECT_TRUE(rig.parameters.gradient(row).equal(at_exit.at(row.name))) << row.name;
}

TEST_P(Families, AStepWithoutTargetsGivesZeros) {
  const spec::ModelSpec model = small_model(GetParam());
  MicroBatch whole = whole_batch(model);
  whole.targets_N.fill_(-1);
  Rig rig(model, {.length = kLength});
  fill(rig.parameters);
  EXPECT_EQ(run_step(rig, whole, 2), 0);
  for (const spec::ParameterRow& row : rig.table.rows())
    EXPECT_EQ(rig.parameters.gradient(row).abs().max().item<double>(), 0) << row.name;
}

// The same bits with one intra-op thread and with two, in fp32 and in bfloat16.
TEST_P(Families, ThreadsChangeNoBit) {
  spec::ModelSpec model = small_model(GetParam());
  model.hidden_size = 192;
  model.head_dim = model.family == spec::Family::llama ? 48 : 64;
  model.intermediate_size = 320;
  model.vocab_size = 700;
  const MicroBatch whole = whole_batch(model);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    Rig rig(model, {.dropout = 0.1, .length = kLength}, at::kCPU, dtype);
    fill(rig.parameters);
    Tensors gradients;
    for (int count : {1, 2}) {
      const Threads threads(count);
      run_step(rig, whole, 2);
      for (const Bucket& bucket : rig.parameters.buckets()) gradients.push_back(bucket.gradient.clone());
    }
    const size_t half = gradients.size() / 2;
    for (size_t i = 0; i < half; ++i)
      EXPECT_TRUE(gradients[i].equal(gradients[half + i])) << "bucket " << i << " " << c10::toString(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Both, Families, ::testing::Values(spec::Family::llama, spec::Family::gpt2),
                         [](const auto& info) { return spec::to_string(info.param); });

}  // namespace
}  // namespace muster::nn
