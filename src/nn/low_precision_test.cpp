// Whole models in bfloat16, with gradients in bfloat16 and in fp32, against fp64 from the same parameters.
#include <cmath>

#include "nn/oracle.h"
#include "nn/rig.h"
#include "nn/test_support.h"

namespace muster::nn {
namespace {

constexpr int64_t kLength = 12, kSequences = 12, kRows = kLength * kSequences;

// Parameters so small that scores of attention stay near 1: softmax turns their absolute errors into relative
// ones, which would grow with them.
void fill(ParameterStore& parameters) {
  uint64_t seed = 1;
  for (const spec::ParameterRow& row : parameters.table().rows()) {
    const double center = row.role == spec::Role::norm_weight ? 1 : 0;
    parameters.value(row).copy_(0.15 * normal(row.shape, at::kDouble, seed++) + center);
  }
}

struct Result {
  double loss = 0;
  Named gradients;
};

Result run_step(Rig& rig, int64_t micro_batches) {
  const at::Tensor loss = at::zeros({1}, at::kDouble);
  rig.parameters.begin_step();
  for (int64_t which = 0; which < micro_batches; ++which) {
    const int64_t sequences = kSequences / micro_batches, rows = kRows / micro_batches, first = which * rows;
    const MicroBatch batch{integers(0, rig.model.vocab_size, kRows, 1).narrow(0, first, rows),
                           integers(0, rig.model.vocab_size, kRows, 2).narrow(0, first, rows),
                           whole_sequences(sequences, kLength, which * sequences), 5};
    UnitAccess access;
    Transformer::Saved saved = rig.transformer.forward(rig.run, batch, loss, access);
    rig.transformer.backward(rig.run, batch, saved, access);
  }
  Result result{loss.item<double>(), {}};
  for (const spec::ParameterRow& row : rig.table.rows())
    result.gradients[row.name] = rig.parameters.gradient(row).clone();
  return result;
}

Result in_bfloat16(const spec::ModelSpec& model, at::ScalarType gradients, int64_t micro_batches) {
  Rig rig(model, {.length = kLength}, at::kCPU, at::kBFloat16, 20000, {.gradients = gradients});
  fill(rig.parameters);
  return run_step(rig, micro_batches);
}

// From the parameters as bfloat16 has them.
Result in_double(const spec::ModelSpec& model) {
  Rig rig(model, {.length = kLength});
  fill(rig.parameters);
  for (const spec::ParameterRow& row : rig.table.rows())
    rig.parameters.value(row).copy_(rig.parameters.value(row).to(at::kBFloat16));
  return run_step(rig, 1);
}

// A number on its way from the ids to the loss is stored at most so often: in each layer normed rows, [query,
// key, value] as a product, with bias, rotated, the attention's output, the projection, its bias, the stream;
// normed rows, the first product, its bias, the activation, the second, its bias, the stream; beside them the
// embeddings, the last norm and the logits. On the way back each has a gradient that is stored.
int64_t roundings(const spec::ModelSpec& model) {
  return 2 * (15 * model.num_hidden_layers + 3);
}

// Each rounding errs by at most 2^-8 of the number, about evenly and with no regard to the others: so many of
// them err, in the norm of a whole gradient, by no more than the root of their number times as much.
double tolerance(const spec::ModelSpec& model) {
  return std::sqrt(static_cast<double>(roundings(model))) * 0x1p-8;
}

double distance(const at::Tensor& measured, const at::Tensor& right) {
  return (measured.to(at::kDouble) - right).norm().item<double>() / right.norm().item<double>();
}

class LowPrecision : public ::testing::TestWithParam<spec::Family> {};

TEST_P(LowPrecision, LossAndGradientsAreThoseOfFp64) {
  const spec::ModelSpec model = small_model(GetParam());
  const Result right = in_double(model);
  for (const at::ScalarType gradients : {at::kBFloat16, at::kFloat})
    for (const int64_t micro_batches : {1, 3}) {
      SCOPED_TRACE(::testing::Message() << c10::toString(gradients) << " " << micro_batches);
      const Result measured = in_bfloat16(model, gradients, micro_batches);
      double worst = 0;
      for (const auto& [name, gradient] : right.gradients) {
        EXPECT_EQ(measured.gradients.at(name).scalar_type(), gradients) << name;
        const double off = distance(measured.gradients.at(name), gradient);
        EXPECT_LE(off, tolerance(model)) << name;
        worst = std::max(worst, off);
      }
      // The losses of the tokens err each on their own.
      const double loss_off = std::abs(measured.loss / right.loss - 1);
      EXPECT_LE(loss_off, tolerance(model) / std::sqrt(kRows));
      RecordProperty("loss_off", std::to_string(loss_off));
      RecordProperty("gradients_off", std::to_string(worst));
    }
}

// All sums over rows end before the one rounding of a gradient: in bfloat16 it is that in fp32, rounded. Of a
// table that is also the head, twice.
TEST_P(LowPrecision, AGradientInBfloat16IsThatInFp32Rounded) {
  const spec::ModelSpec model = small_model(GetParam());
  const Result rounded = in_bfloat16(model, at::kBFloat16, 1), whole = in_bfloat16(model, at::kFloat, 1);
  EXPECT_EQ(rounded.loss, whole.loss);
  const spec::ParameterTable table(model);
  for (const spec::ParameterRow& row : table.rows()) {
    const at::Tensor& right = whole.gradients.at(row.name);
    const bool is_head_too = row.role == spec::Role::token_embedding && model.tie_word_embeddings;
    const double error = (is_head_too ? 0x1p-8 : 64 * epsilon(at::kFloat)) * right.abs().max().item<double>();
    EXPECT_LE(rounding_excess(rounded.gradients.at(row.name), right, error), 0) << row.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Both, LowPrecision, ::testing::Values(spec::Family::llama, spec::Family::gpt2),
                         [](const auto& info) { return spec::to_string(info.param); });

}  // namespace
}  // namespace muster::nn
