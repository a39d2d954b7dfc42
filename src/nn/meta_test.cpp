// What the design stands on: a rehearsal on `meta` allocates what a run on `cpu` allocates, operator by
// operator.
#include <fmt/format.h>

#include <array>

#include "nn/initialize.h"
#include "nn/rig.h"
#include "nn/test_support.h"

namespace muster::nn {
namespace {

using telemetry::StepRecord;

struct Case {
  const char* name;
  spec::ModelSpec model;
  Transformer::Options options;
  int64_t sequences = 1, micro_batches = 1;
  at::ScalarType dtype = at::kFloat;
  Formats formats = {};
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

MicroBatch micro_batch(const Case& c, at::Device device, int64_t which) {
  const device::CategoryGuard guard(Category::input);
  const int64_t rows = c.sequences * c.options.length;
  return {integers(0, c.model.vocab_size, rows, 1).to(device),
          integers(0, c.model.vocab_size, rows, 2).to(device),
          whole_sequences(c.sequences, c.options.length, which * c.sequences), 0};
}

// Records the forward and backward passes of one step; afterwards nothing that they took is alive.
StepRecord record_step(const Case& c, at::Device device) {
  Rig rig(c.model, c.options, device, c.dtype, 20000, c.formats);
  for (const spec::ParameterRow& row : rig.table.rows())
    initialize(rig.run, rig.parameters.value_piece(row), row, spec::local_part(row, rig.mesh, 0),
               rig.parameters.owned(row), 1);
  const at::Tensor loss = rig.run.empty({1}, Category::other, at::kDouble);
  loss.zero_();
  std::vector<MicroBatch> batches;
  for (int64_t which = 0; which < c.micro_batches; ++which) batches.push_back(micro_batch(c, device, which));
  device::Ledger& ledger = device::ledger(device.type());
  StepRecord record;
  for (int at = 0; at < telemetry::kCategoryCount; ++at)
    record.live_at_start[at] = ledger.live(static_cast<Category>(at));
  ledger.reset_peak();
  ledger.start_recording(&record.memory);
  rig.run.set_record(&record);
  for (const MicroBatch& batch : batches) {
    UnitAccess access;
    Transformer::Saved saved = rig.transformer.forward(rig.run, batch, loss, access);
    rig.transformer.backward(rig.run, batch, saved, access);
  }
  rig.run.set_record(nullptr);
  ledger.stop_recording();
  EXPECT_EQ(ledger.peak(), telemetry::find_peak(record).bytes);
  for (int at = 0; at < telemetry::kCategoryCount; ++at)
    EXPECT_EQ(ledger.live(static_cast<Category>(at)), record.live_at_start[at])
        << telemetry::to_string(static_cast<Category>(at));
  return record;
}

// Net change of each category on the device between the ends of neighbouring operators.
using Change = std::array<int64_t, telemetry::kCategoryCount>;
std::vector<Change> changes(const StepRecord& record) {
  std::vector<Change> result(record.ops.size() + 1);
  size_t op = 0;
  for (size_t event = 0; event < record.memory.size(); ++event) {
    while (op < record.ops.size() && record.ops[op].memory_after <= event) ++op;
    if (telemetry::is_on_device(record.memory[event].category))
      result[op][static_cast<size_t>(record.memory[event].category)] += record.memory[event].bytes;
  }
  return result;
}

std::vector<Case> cases() {
  const spec::ModelSpec llama = small_model(spec::Family::llama), gpt2 = small_model(spec::Family::gpt2);
  spec::ModelSpec tied = llama, biased = llama, grouped = llama, larger = llama;
  tied.tie_word_embeddings = true;
  biased.attention_bias = true;
  grouped.num_key_value_heads = 1;
  larger.hidden_size = 128;
  larger.head_dim = 32;
  larger.max_position_embeddings = 300;
  spec::ModelSpec tiled_gpt2 = gpt2;
  tiled_gpt2.max_position_embeddings = 256;
  const Transformer::Options plain{.length = 11}, dropping{.dropout = 0.2, .length = 16};
  const Transformer::Options chunked{.dropout = 0.1, .loss_chunk_tokens = 7, .length = 13};
  const Transformer::Options full{.dropout = 0.2, .length = 16, .recompute = {spec::Recompute::Kind::full}};
  const Transformer::Options every{.length = 16, .recompute = {spec::Recompute::Kind::every, 2}};
  const Transformer::Options selective{.length = 16, .recompute = {spec::Recompute::Kind::selective}};
  return {{"llama", llama, plain},
          {"llama_full", llama, full, 2, 2},
          {"llama_every", llama, every, 2, 2},
          {"llama_selective", tied, selective, 2},
          {"gpt2_full", gpt2, full, 2, 2},
          {"gpt2_selective", gpt2, selective, 2},
          {"llama_double", llama, plain, 3, 2, at::kDouble},
          {"llama_bfloat16", llama, dropping, 3, 2, at::kBFloat16},
          {"llama_bfloat16_full", tied, full, 2, 2, at::kBFloat16, {.gradients = at::kFloat}},
          {"llama_bfloat16_tiled", larger, {.length = 300}, 2, 2, at::kBFloat16},
          {"gpt2_bfloat16", gpt2, chunked, 3, 2, at::kBFloat16, {.gradients = at::kFloat}},
          {"llama_tied", tied, chunked, 2, 2},
          {"llama_biased", biased, dropping, 3},
          {"llama_multi_query", grouped, chunked, 5, 3},
          {"llama_tiled", larger, {.length = 300}, 2, 2},
          {"gpt2_tiled", tiled_gpt2, {.length = 256}},
          {"llama_larger", larger, {.length = 128}, 2},
          {"gpt2", gpt2, plain},
          {"gpt2_dropout", gpt2, dropping, 3, 2},
          {"gpt2_chunks", gpt2, chunked, 2, 3, at::kDouble}};
}

class Rehearsal : public ::testing::TestWithParam<Case> {};

TEST_P(Rehearsal, AllocatesWhatARunAllocates) {
  const StepRecord run = record_step(GetParam(), at::kCPU), rehearsal = record_step(GetParam(), at::kMeta);
  EXPECT_EQ(telemetry::find_peak(run).bytes, telemetry::find_peak(rehearsal).bytes);
  EXPECT_EQ(run.place_of(telemetry::find_peak(run).event),
            rehearsal.place_of(telemetry::find_peak(rehearsal).event));
  ASSERT_EQ(run.ops.size(), rehearsal.ops.size());
  const std::vector<Change> of_run = changes(run), of_rehearsal = changes(rehearsal);
  for (size_t op = 0; op < run.ops.size(); ++op) {
    const telemetry::OpEvent &left = run.ops[op], &right = rehearsal.ops[op];
    const std::string place = fmt::format("{}: {}, {}, {}", op, left.where, left.name, left.phase);
    EXPECT_EQ(place, fmt::format("{}: {}, {}, {}", op, right.where, right.name, right.phase));
    EXPECT_EQ(left.flops, right.flops) << place;
    EXPECT_EQ(left.bytes, right.bytes) << place;
    EXPECT_EQ(of_run[op], of_rehearsal[op]) << place;
  }
  EXPECT_EQ(of_run.back(), of_rehearsal.back());
}

TEST_P(Rehearsal, TakesNoTimeAndNoScratch) {
  const StepRecord rehearsal = record_step(GetParam(), at::kMeta);
  EXPECT_EQ(telemetry::scratch_peak(rehearsal), 0);
  for (const telemetry::OpEvent& op : rehearsal.ops) EXPECT_EQ(op.start_seconds + op.seconds, 0) << op.name;
}

// What recomputation adds for a token: the attention core, and of a whole layer all products but the last.
double again(const Case& c, const spec::FlopsPerToken& flops) {
  using Kind = spec::Recompute::Kind;
  const spec::ModelSpec& m = c.model;
  const auto layers = static_cast<double>(m.num_hidden_layers);
  const double last = 2.0 * static_cast<double>(m.intermediate_size * m.hidden_size) * layers;
  const double whole = flops.attention + flops.linear - last;
  switch (c.options.recompute.kind) {
    case Kind::selective:
      return flops.attention;
    case Kind::full:
      return whole;
    case Kind::every:
      return whole / 2;  // one of two layers
    default:
      return 0;
  }
}

// The matmuls and the attention of a step are three forward passes by the convention of the report, and one
// product of attention more: backward makes the scores again.
TEST_P(Rehearsal, FlopsFollowFromTheModel) {
  const Case& c = GetParam();
  const spec::FlopsPerToken flops = spec::forward_flops_per_token(c.model, c.options.length);
  const double tokens = static_cast<double>(c.sequences * c.options.length * c.micro_batches);
  const double right = tokens * (3 * (flops.linear + flops.head) + 3.5 * flops.attention + again(c, flops));
  EXPECT_NEAR(record_step(c, at::kMeta).hardware_flops() / right, 1, 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Models, Rehearsal, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace muster::nn
