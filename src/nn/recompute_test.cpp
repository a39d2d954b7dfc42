// Recomputation changes what is kept and what is computed, and no bit of any result.
#include "nn/recompute.h"

#include "base/error.h"
#include "base/units.h"
#include "nn/rig.h"
#include "nn/test_support.h"

namespace muster::nn {
namespace {

using Kind = spec::Recompute::Kind;
using Plan = std::vector<Keep>;

constexpr int64_t kLength = 12, kSequences = 2, kRows = kSequences * kLength;
constexpr KeepCosts kCosts = {{{100, 0}, {80, 3}, {10, 50}}};

spec::Recompute budget(int64_t bytes) {
  return {Kind::budget, 1, bytes};
}

TEST(KeepPlan, FollowsTheRequest) {
  EXPECT_EQ(keep_plan({}, 2, kCosts), (Plan{Keep::all, Keep::all}));
  EXPECT_EQ(keep_plan({Kind::selective}, 2, kCosts), (Plan{Keep::all_but_core, Keep::all_but_core}));
  EXPECT_EQ(keep_plan({Kind::full}, 2, kCosts), (Plan{Keep::input, Keep::input}));
  EXPECT_EQ(keep_plan({Kind::every, 2}, 3, kCosts), (Plan{Keep::input, Keep::all, Keep::input}));
}

TEST(KeepPlan, ABudgetTakesTheFewestFlopsThatFit) {
  EXPECT_EQ(keep_plan(budget(400), 4, kCosts), (Plan(4, Keep::all)));
  EXPECT_EQ(keep_plan(budget(399), 4, kCosts), (Plan{Keep::all_but_core, Keep::all, Keep::all, Keep::all}));
  EXPECT_EQ(keep_plan(budget(320), 4, kCosts), (Plan(4, Keep::all_but_core)));
  EXPECT_EQ(keep_plan(budget(310), 4, kCosts), (Plan{Keep::input, Keep::all, Keep::all, Keep::all}));
  EXPECT_EQ(keep_plan(budget(40), 4, kCosts), (Plan(4, Keep::input)));
}

TEST(KeepPlan, ABudgetThatNothingFitsIsRefusedWithTheLeastThatDoes) {
  try {
    keep_plan(budget(39), 4, kCosts);
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_EQ(error.problems().at(0).field, "layout.recompute");
    EXPECT_NE(error.problems().at(0).rule.find("at least 40 B"), std::string::npos)
        << error.problems().at(0).rule;
  }
}

struct Case {
  const char* name;
  spec::Recompute recompute;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

Transformer::Options options_of(const Case& c) {
  return {.dropout = 0.5, .seed = 9, .length = kLength, .recompute = c.recompute, .rows_in_flight = kRows};
}

void fill(ParameterStore& parameters) {
  uint64_t seed = 1;
  for (const spec::ParameterRow& row : parameters.table().rows())
    parameters.value(row).copy_(0.3 * normal(row.shape, parameters.value(row).scalar_type(), seed++));
}

MicroBatch micro_batch(const spec::ModelSpec& model, int64_t which) {
  return {integers(0, model.vocab_size, kRows, 10 + static_cast<uint64_t>(which)),
          integers(0, model.vocab_size, kRows, 20 + static_cast<uint64_t>(which)),
          whole_sequences(kSequences, kLength, which * kSequences), 5};
}

// The loss and every gradient of two micro-batches, the second's forward between those of the first.
std::vector<at::Tensor> results(const spec::ModelSpec& model, const Case& c, at::ScalarType dtype) {
  Rig rig(model, options_of(c), at::kCPU, dtype);
  fill(rig.parameters);
  rig.parameters.begin_step();
  const at::Tensor loss = at::zeros({1}, at::kDouble);
  const MicroBatch first = micro_batch(model, 0), second = micro_batch(model, 1);
  UnitAccess access;
  Transformer::Saved saved_first = rig.transformer.forward(rig.run, first, loss, access);
  Transformer::Saved saved_second = rig.transformer.forward(rig.run, second, loss, access);
  rig.transformer.backward(rig.run, first, saved_first, access);
  rig.transformer.backward(rig.run, second, saved_second, access);
  std::vector<at::Tensor> results{loss};
  for (const Bucket& bucket : rig.parameters.buckets()) results.push_back(bucket.gradient.clone());
  return results;
}

// Bytes of activations that live after a forward pass, beside those of the final norm and the head.
int64_t kept_by_layers(const spec::ModelSpec& model, const Case& c, at::ScalarType dtype = at::kDouble) {
  Rig rig(model, options_of(c), at::kMeta, dtype);
  const at::Tensor loss = rig.run.empty({1}, Category::other, at::kDouble);
  MicroBatch batch = micro_batch(model, 0);
  batch.ids_N = batch.ids_N.to(at::kMeta), batch.targets_N = batch.targets_N.to(at::kMeta);
  device::Ledger& ledger = device::ledger(at::kMeta);
  const int64_t before = ledger.live(Category::activations);
  UnitAccess access;
  const Transformer::Saved saved = rig.transformer.forward(rig.run, batch, loss, access);
  auto last = static_cast<int64_t>(saved.residual_MH.nbytes() + saved.dnormed_MH.nbytes() +
                                   saved.norm.rstd_N.nbytes());
  if (saved.norm.mean_N.defined()) last += static_cast<int64_t>(saved.norm.mean_N.nbytes());
  return ledger.live(Category::activations) - before - last;
}

class Recomputation : public ::testing::TestWithParam<spec::Family> {};

// CASES B040: masks are drawn again alike.
TEST_P(Recomputation, B040ChangesNoBit) {
  const spec::ModelSpec model = small_model(GetParam());
  for (const at::ScalarType dtype : {at::kDouble, at::kBFloat16}) {
    const std::vector<at::Tensor> right = results(model, {"none", {}}, dtype);
    for (const Case& c : {Case{"selective", {Kind::selective}}, Case{"full", {Kind::full}},
                          Case{"every:2", {Kind::every, 2}}}) {
      const std::vector<at::Tensor> got = results(model, c, dtype);
      for (size_t at = 0; at < right.size(); ++at)
        EXPECT_TRUE(got[at].equal(right[at])) << c << " " << at << " " << c10::toString(dtype);
    }
  }
}

TEST_P(Recomputation, KeepsWhatItSays) {
  const spec::ModelSpec model = small_model(GetParam());
  const int64_t hidden = kRows * model.hidden_size * 8,
                statistics = model.family == spec::Family::gpt2 ? 2 : 1;
  const int64_t core = kRows * (model.q_size() + model.num_attention_heads) * 8;
  const int64_t up =
      model.family == spec::Family::llama ? 2 * model.intermediate_size : model.intermediate_size;
  const int64_t all =
      2 * hidden + core + kRows * (2 * statistics + model.q_size() + 2 * model.kv_size() + up) * 8;
  EXPECT_EQ(kept_by_layers(model, {"none", {}}), 2 * all);
  EXPECT_EQ(kept_by_layers(model, {"selective", {Kind::selective}}), 2 * (all - core));
  EXPECT_EQ(kept_by_layers(model, {"full", {Kind::full}}), 2 * hidden);
  EXPECT_EQ(kept_by_layers(model, {"every:2", {Kind::every, 2}}), all + hidden);
}

TEST_P(Recomputation, ABudgetIsUsedAndKept) {
  const spec::ModelSpec model = small_model(GetParam());
  const int64_t none = kept_by_layers(model, {"none", {}});
  const int64_t selective = kept_by_layers(model, {"selective", {Kind::selective}});
  const int64_t full = kept_by_layers(model, {"full", {Kind::full}});
  EXPECT_EQ(kept_by_layers(model, {"all fits", budget(none)}), none);
  EXPECT_EQ(kept_by_layers(model, {"one core too much", budget(none - 1)}), (none + selective) / 2);
  EXPECT_EQ(kept_by_layers(model, {"cores too much", budget(selective)}), selective);
  EXPECT_EQ(kept_by_layers(model, {"least", budget(full)}), full);
  EXPECT_THROW(kept_by_layers(model, {"too little", budget(full - 1)}), UserError);
}

// Statistics stay in fp32, and a budget knows.
TEST_P(Recomputation, ABudgetOfBfloat16) {
  const spec::ModelSpec model = small_model(GetParam());
  const bool is_gpt2 = model.family == spec::Family::gpt2;
  const int64_t up = is_gpt2 ? model.intermediate_size : 2 * model.intermediate_size;
  const int64_t elements = 2 * model.hidden_size + 2 * model.q_size() + 2 * model.kv_size() + up;
  const int64_t statistics = model.num_attention_heads + (is_gpt2 ? 4 : 2);
  const int64_t none = kept_by_layers(model, {"none", {}}, at::kBFloat16);
  EXPECT_EQ(none, 2 * kRows * (2 * elements + 4 * statistics));
  const int64_t selective = kept_by_layers(model, {"selective", {Kind::selective}}, at::kBFloat16);
  EXPECT_EQ(kept_by_layers(model, {"all fits", budget(none)}, at::kBFloat16), none);
  EXPECT_EQ(kept_by_layers(model, {"one core too much", budget(none - 1)}, at::kBFloat16),
            (none + selective) / 2);
}

INSTANTIATE_TEST_SUITE_P(Both, Recomputation, ::testing::Values(spec::Family::llama, spec::Family::gpt2),
                         [](const auto& info) { return spec::to_string(info.param); });

}  // namespace
}  // namespace muster::nn
