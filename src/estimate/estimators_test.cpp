// Our figures beside those of the field's estimators (memory_estimators.csv): the table in
// docs/memory_estimators.md is what this code computes, and the reasons it gives for differences are checked.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/units.h"
#include "estimate/kinds/numbers.h"
#include "estimate/layout_memory.h"
#include "estimate/reference_for_tests.h"

namespace muster::estimate {
namespace {

constexpr double kGib = static_cast<double>(GiB);
constexpr BytesPerParameter kBytes = {2, 4, 12};  // theirs keep gradients in 4 bytes

// One configuration with what every tool prints for it.
struct Configuration {
  CsvRow row;
  std::map<std::string, double> printed;  // "tool field" in GiB or plain; the first where a tool has several

  int64_t degree(const char* column) { return std::max<int64_t>(1, row.integer(column)); }
  std::optional<double> value(const std::string& name) const {
    const auto found = printed.find(name);
    return found == printed.end() ? std::nullopt : std::optional(found->second);
  }
};

double in_gib(double value, const std::string& unit) {
  if (unit == "bytes") return value / kGib;
  return unit == "MiB" ? value / 1024 : value;
}

std::vector<Configuration> configurations() {
  std::vector<Configuration> list;
  for (CsvRow& row : read_csv(reference("memory_estimators.csv"))) {
    if (list.empty() || list.back().row["cfg_id"] != row["cfg_id"]) list.push_back({row, {}});
    if (row["status"] != "ok") continue;
    const std::string tool = row["tool"].substr(0, row["tool"].find(' '));
    double value = 0;
    const std::string& text = row["value"];
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{}) continue;
    double& kept = list.back().printed[tool + " " + row["output_field"]];
    // DeepSpeed prints a line for each kind of offload; the most is without.
    kept = std::max(kept, in_gib(value, row["unit"]));
  }
  return list;
}

// The table of models knows biases and ties; a GPT of Megatron's family otherwise.
Dimensions dimensions_of(Configuration& c) {
  static std::vector<CsvRow> models = read_csv(reference("model_configs.csv"));
  for (CsvRow& model : models)
    if (model["model"] == c.row["model"]) {
      Dimensions d = dimensions_in(model);
      d.vocab = c.row.integer("vocab");
      return d;
    }
  Dimensions d;
  d.layers = c.row.integer("layers");
  d.hidden = c.row.integer("hidden");
  d.heads = c.row.integer("heads");
  d.kv_heads = c.row.integer("kv_heads");
  d.head_dim = d.hidden / d.heads;
  d.ffn = c.row.integer("ffn_hidden");
  d.vocab = c.row.integer("vocab");
  d.gated = false;
  d.norm_bias = true;
  if (c.row["model"].starts_with("nemotron")) return d;
  d.learned_positions = c.row.integer("seq_len");
  d.tied = d.qkv_bias = d.attention_output_bias = d.mlp_bias = true;
  return d;
}

MemoryModel model_of(Configuration& c) {
  const Dimensions d = dimensions_of(c);
  MemoryModel model;
  model.parameters = count_parameters(d);
  model.tied = d.tied;
  model.layers = d.layers;
  model.vocab = d.vocab;
  model.shape = {c.row.integer("seq_len"), c.row.integer("micro_batch"), d.hidden, d.heads};
  if (d.gated) {
    const int64_t active = d.experts.active + d.experts.shared;
    model.shape.query_width = d.heads * d.head_dim;
    model.shape.kv_width = d.kv_heads * d.head_dim;
    model.shape.gated_ffn = d.experts.count > 0 ? active * d.experts.ffn : d.ffn;
  }
  return model;
}

Layout layout_of(Configuration& c) {
  Layout layout;
  layout.data = c.degree("dp");
  layout.tensor = c.degree("tp");
  layout.pipeline = c.degree("pp");
  layout.context = c.degree("cp");
  layout.expert = c.degree("ep");
  layout.chunks = c.degree("vpp");
  layout.schedule = layout.chunks > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
  layout.zero = static_cast<int>(c.row.integer("zero_stage"));
  layout.sequence_parallel = c.row["sp"] == "1";
  layout.micro_batches = c.row.integer("global_batch") / (c.row.integer("micro_batch") * layout.data);
  const std::string& recompute = c.row["recompute"];
  layout.recompute = recompute == "full"        ? Recompute::full
                     : recompute == "selective" ? Recompute::selective
                                                : Recompute::none;
  return layout;
}

DeviceMemory ours(Configuration& c, Layout layout) {
  const MemoryModel model = model_of(c);
  return memory_on_stage(model, kBytes, layout, fullest_stage(model, kBytes, layout, 0));
}

double state_gib(const DeviceMemory& memory) {
  return static_cast<double>(memory.state()) / kGib;
}

// The letters of the document's legend that apply.
std::string reasons(Configuration& c) {
  const Dimensions d = dimensions_of(c);
  const Layout layout = layout_of(c);
  std::string letters;
  const auto add = [&](bool applies, char letter) {
    if (applies) letters += letter;
  };
  add(layout.zero >= 2, 'Z');
  add(layout.recompute == Recompute::full, 'F');
  add(layout.recompute == Recompute::none, 'S');
  add(layout.zero <= 1 && layout.tensor * layout.pipeline > 1, 'U');
  add(layout.tensor > 1 && !layout.sequence_parallel, 'A');
  add(d.tied, 'T');
  add(!d.tied, 'H');
  add(d.gated, 'G');
  add(d.experts.count > 0, 'E');
  add(c.value("DeepSpeed gpu_mem").has_value(), 'D');
  return letters;
}

std::string cell(const std::optional<double>& gib_value) {
  return gib_value ? decimal(*gib_value, 1) : "-";
}

std::string table_row(Configuration& c) {
  const Layout layout = layout_of(c);
  const DeviceMemory memory = ours(c, layout);
  return fmt::format("| {} | {} | {}x{}x{}x{} | {} | {} | {} | {} | **{}** | {} | {} | {} | {} | {} | {} |\n",
                     c.row["cfg_id"], c.row["model"], layout.data, layout.tensor, layout.pipeline,
                     layout.context, layout.zero, to_string(layout.recompute), cell(state_gib(memory)),
                     cell(static_cast<double>(memory.activations + memory.head) / kGib),
                     cell(state_gib(memory) + static_cast<double>(memory.activations + memory.head) / kGib),
                     cell(c.value("Megatron-LM total_memory")),
                     cell(c.value("llm-analysis (weight+op_state+act)_memory_per_gpu")),
                     cell(c.value("EleutherAI per_gpu_total")),
                     cell(c.value("Calculon proc_mem_tier1_cap_req")), cell(c.value("DeepSpeed gpu_mem")),
                     reasons(c));
}

TEST(Estimators, TheDocumentsTableIsWhatWeCompute) {
  const std::string document = read_text(SOURCE_ROOT "/docs/memory_estimators.md");
  std::string rows;
  int missing = 0, count = 0;
  for (Configuration& c : configurations()) {
    const std::string row = table_row(c);
    rows += row;
    missing += document.find(row) == std::string::npos;
    ++count;
  }
  EXPECT_EQ(count, 60);
  EXPECT_EQ(missing, 0) << "the rows are now\n" << rows;
}

Configuration find(const std::string& id) {
  for (Configuration& c : configurations())
    if (c.row["cfg_id"] == id) return c;
  throw std::runtime_error("no configuration " + id);
}

TEST(Estimators, DenseStatesAgreeWithMegatronUpToStageOne) {
  int compared = 0;
  for (Configuration& c : configurations()) {
    const Layout layout = layout_of(c);
    // Its optimizer shards are over data ranks alone; ours over data * context.
    if (layout.zero > 1 || !c.row["n_experts"].empty() || layout.context > 1) continue;
    const double theirs = *c.value("Megatron-LM weight_and_optimizer_memory");
    EXPECT_NEAR(state_gib(ours(c, layout)), theirs, 0.01 * theirs)
        << c.row["cfg_id"] << " " << c.row["model"];
    ++compared;
  }
  EXPECT_GT(compared, 30);
}

TEST(Estimators, TotalsAgreeWithMegatronWhereNoReasonApplies) {
  int compared = 0;
  for (Configuration& c : configurations()) {
    const Layout layout = layout_of(c);
    if (reasons(c).find_first_of("ZFSAGED") != std::string::npos) continue;
    const DeviceMemory memory = ours(c, layout);
    const double total = state_gib(memory) + static_cast<double>(memory.activations + memory.head) / kGib;
    EXPECT_NEAR(total, *c.value("Megatron-LM total_memory"), 0.01 * total) << c.row["cfg_id"];
    ++compared;
  }
  EXPECT_EQ(compared, 7);
}

TEST(Estimators, Z_MegatronPricesEveryStageAsTheFirst) {
  Configuration first = find("C24"), second = find("C25"), third = find("C26");
  const std::string field = "Megatron-LM weight_and_optimizer_memory";
  EXPECT_EQ(first.value(field), second.value(field));
  EXPECT_EQ(first.value(field), third.value(field));
  EXPECT_NEAR(*third.value(field) / state_gib(ours(first, layout_of(first))), 1, 0.01);
  EXPECT_LT(state_gib(ours(third, layout_of(third))), 0.4 * *third.value(field));
}

TEST(Estimators, F_MegatronPricesFullRecomputationAsNone) {
  for (const auto& [none, full] : {std::pair("C01", "C03"), {"C04", "C06"}, {"C07", "C09"}, {"C10", "C12"}}) {
    const std::string field = "Megatron-LM activation_memory";
    Configuration with = find(full);
    EXPECT_EQ(find(none).value(field), with.value(field));
    EXPECT_LT(static_cast<double>(ours(with, layout_of(with)).activations) / kGib, 0.5 * *with.value(field))
        << full;
  }
}

TEST(Estimators, U_TheCookbookDividesStateByDataAlone) {
  for (Configuration& c : configurations()) {
    const auto gradients = c.value("EleutherAI gradient");
    const Layout layout = layout_of(c);
    if (!gradients || layout.zero > 1 || !c.row["n_experts"].empty() ||
        c.row["model"].starts_with("nemotron"))
      continue;
    const MemoryModel model = model_of(c);
    // T: it counts a head of its own where the model ties it.
    const int64_t head = model.tied ? model.parameters.embedding : 0;
    const double whole = 4.0 * static_cast<double>(model.parameters.total() + head) / kGib;
    EXPECT_NEAR(*gradients, whole, 0.01 * whole) << c.row["cfg_id"];
  }
}

TEST(Estimators, A_TheCookbookDividesActivationsOnlyUnderSequenceParallelism) {
  Configuration c = find("C01");
  Layout undivided = layout_of(c);
  undivided.tensor = 1;
  EXPECT_NEAR(*c.value("EleutherAI activation"), static_cast<double>(ours(c, undivided).activations) / kGib,
              0.1);
}

TEST(Estimators, G_TheCookbookCountsTheClassicLayer) {
  Configuration c = find("C23");
  const LayerShape classic = {4096, 1, 4096, 32};
  const double whole =
      32.0 * static_cast<double>(activation_bytes_per_layer(classic, 1, true, Recompute::none)) / kGib;
  EXPECT_NEAR(*c.value("EleutherAI activation"), whole, 0.01);
}

TEST(Estimators, H_LlmAnalysisLeavesTheUntiedHeadOut) {
  for (const char* id : {"C23", "C27"}) {
    Configuration c = find(id);
    const ParameterCount count = model_of(c).parameters;
    EXPECT_NEAR(*c.value("llm-analysis num_params_total"), static_cast<double>(count.total() - count.head), 1)
        << id;
  }
}

TEST(Estimators, LlmAnalysisLeavesGradientsOutOfItsTotal) {
  for (const char* id : {"C02", "C23", "C38"}) {
    const Configuration c = find(id);
    const double sum = *c.value("llm-analysis weight_memory_per_gpu") +
                       *c.value("llm-analysis optimizer_state_memory_per_gpu") +
                       *c.value("llm-analysis activation_memory_per_gpu");
    EXPECT_NEAR(*c.value("llm-analysis (weight+op_state+act)_memory_per_gpu"), sum, 0.05) << id;
  }
}

TEST(Estimators, S_MegatronAndLlmAnalysisCountNoScores) {
  Configuration c = find("C33");
  Layout fused = layout_of(c);
  const double with = static_cast<double>(ours(c, fused).activations) / kGib;
  fused.recompute = Recompute::selective;
  const double without = static_cast<double>(ours(c, fused).activations) / kGib;
  EXPECT_NEAR(*c.value("Megatron-LM activation_memory"), without, 0.15 * without);
  EXPECT_NEAR(*c.value("llm-analysis activation_memory_per_gpu"), without, 0.35 * without);
  EXPECT_GT(with, 3 * without);
}

TEST(Estimators, D_DeepSpeedCountsModelStatesAlone) {
  for (const char* id : {"C26", "C30", "C31"}) {
    Configuration c = find(id);
    EXPECT_NEAR(*c.value("DeepSpeed gpu_mem") / state_gib(ours(c, layout_of(c))), 1, 0.25) << id;
  }
}

}  // namespace
}  // namespace muster::estimate
