// Every figure of the published sizing guide: out of the formulas at its printed precision, and on the page
// that the command prints.
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "estimate/checkpoint.h"
#include "estimate/collective.h"
#include "estimate/kinds/kind.h"
#include "estimate/kinds/numbers.h"
#include "estimate/layout_memory.h"
#include "estimate/pipeline.h"
#include "estimate/straggler.h"
#include "estimate/throughput.h"

namespace muster::estimate {
namespace {

const std::string kGuide = SOURCE_ROOT "/../shared/reference/sizing/sizing.json";

// Decimals that a figure is printed with: 485.0 has one, 0.070 three. JSON drops trailing zeros, so the text
// of the file is what counts.
int decimals(const std::string& figure) {
  const size_t point = figure.find('.');
  return point == std::string::npos ? 0 : static_cast<int>(figure.size() - point - 1);
}

// A figure as the file spells it.
using Figure = std::string;

// Parses the guide with every number kept as its text.
class Guide {
 public:
  Guide() {
    std::string text = read_text(kGuide);
    std::string quoted;
    bool in_string = false;
    for (size_t at = 0; at < text.size();) {
      if (text[at] == '"') in_string = !in_string;
      const bool number =
          !in_string && (std::isdigit(static_cast<unsigned char>(text[at])) || text[at] == '-');
      if (!number) {
        quoted += text[at++];
        continue;
      }
      const size_t end = text.find_first_of(",]} \n", at);
      quoted += '"' + text.substr(at, end - at) + '"';
      at = end;
    }
    json_ = parse_json(quoted, kGuide);
  }
  const Json& operator[](const char* part) const { return json_.at(part); }

 private:
  Json json_;
};

const Guide& guide() {
  static const Guide instance;
  return instance;
}

double value(const Json& figure) {
  return std::stod(figure.get<Figure>());
}
int64_t whole(const Json& figure) {
  return std::llround(value(figure));
}

void expect_figure(double computed, const Json& figure) {
  const Figure text = figure.get<Figure>();
  EXPECT_EQ(decimal(computed, decimals(text)), text) << computed;
}

std::string printed(const std::string& command) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  for (char letter : command + " ") {
    if (letter == '"')
      quoted = !quoted;
    else if (letter == ' ' && !quoted) {
      if (!word.empty()) words.push_back(word);
      word.clear();
    } else
      word += letter;
  }
  return run(words);
}

// The words of the one line that begins with `begin`.
std::vector<std::string> line_words(const std::string& page, const std::string& begin) {
  for (size_t at = 0; at < page.size();) {
    const size_t end = std::min(page.find('\n', at), page.size());
    std::string line = page.substr(at, end - at);
    at = end + 1;
    line.erase(0, line.find_first_not_of(' '));
    if (!line.starts_with(begin)) continue;
    std::vector<std::string> words;
    for (size_t from = 0; from < line.size();) {
      const size_t to = std::min(line.find(' ', from), line.size());
      if (to > from) words.push_back(line.substr(from, to - from));
      from = to + 1;
    }
    return words;
  }
  ADD_FAILURE() << "no line begins with '" << begin << "' in\n" << page;
  return {};
}

void expect_on_line(const std::string& page, const std::string& begin, std::initializer_list<Json> figures) {
  const auto words = line_words(page, begin);
  for (const Json& figure : figures) {
    const Figure text = figure.get<Figure>();
    const bool there = std::any_of(words.begin(), words.end(), [&](std::string word) {
      while (!word.empty() && !std::isdigit(static_cast<unsigned char>(word.back()))) word.pop_back();
      while (!word.empty() && !std::isdigit(static_cast<unsigned char>(word.front()))) word.erase(0, 1);
      return word == text;
    });
    EXPECT_TRUE(there) << text << " is not on the line '" << begin << "...' of\n" << page;
  }
}

MemoryModel guide_model() {
  const Json& m = guide()["memory"]["model"];
  MemoryModel model;
  model.parameters.dense = whole(m["parameters"]);
  model.layers = whole(m["layers"]);
  model.shape = {whole(m["sequence"]), whole(m["micro_batch"]), whole(m["hidden"]), whole(m["heads"])};
  return model;
}

constexpr double kGib = static_cast<double>(GiB);
const int64_t kReserve = 10 * GiB, kDevice = 192 * GiB;
const std::string kModel = "memory --params 70 --layers 80 --hidden 8192 --heads 64 --sequence 4096 ";

Layout layout_of(const Json& row) {
  Layout layout;
  layout.data = whole(row["data"]);
  layout.tensor = whole(row["tensor"]);
  layout.pipeline = whole(row["pipeline"]);
  layout.zero = static_cast<int>(whole(row["zero"]));
  if (row.contains("recompute"))
    layout.recompute = row["recompute"] == "full" ? Recompute::full : Recompute::selective;
  return layout;
}

void expect_memory(const Layout& layout, const Json& row) {
  const DeviceMemory memory = memory_on_stage(guide_model(), {}, layout, 0);
  expect_figure(static_cast<double>(memory.state()) / kGib, row["state_gib"]);
  expect_figure(static_cast<double>(memory.activations) / kGib, row["activations_gib"]);
  expect_figure(static_cast<double>(total_bytes(memory, kReserve)) / kGib, row["total_gib"]);
}

TEST(Guide, MemoryOfTheStrategies) {
  const std::string page =
      printed(kModel + "--gpus 8 --micro-batch 1 --memory \"192 GiB\" --reserve \"10 GiB\"");
  for (const Json& row : guide()["memory"]["rows"]) {
    const std::string name = row["strategy"];
    SCOPED_TRACE(name);
    expect_memory(layout_of(row), row);
    expect_on_line(page, name, {row["state_gib"], row["activations_gib"], row["total_gib"]});
    EXPECT_EQ(line_words(page, name).back(), row["fits"] ? "yes" : "no");
  }
}

TEST(Guide, ActivationsOfALayer) {
  const Json& layer = guide()["memory"]["per_layer_gib"];
  const LayerShape shape = guide_model().shape;
  expect_figure(score_factor(shape), layer["score_term_5as_over_h"]);
  expect_figure(static_cast<double>(activation_bytes_per_layer(shape, 1, true, Recompute::none)) / kGib,
                layer["none"]);
  const std::string page = printed(kModel);
  expect_on_line(page, "none", {layer["none"]});
  expect_on_line(page, "activations of one", {layer["score_term_5as_over_h"]});
}

TEST(Guide, FullRecomputation) {
  const Json& full = guide()["memory"]["full_recompute"];
  const LayerShape shape = guide_model().shape;
  const double layer = static_cast<double>(activation_bytes_per_layer(shape, 1, true, Recompute::full));
  expect_figure(layer / 1e6, full["bytes_per_layer_mb"]);
  expect_figure(80 * layer / kGib, full["all_layers_gib"]);
  expect_figure(
      activation_factor(shape, 1, true, Recompute::none) / activation_factor(shape, 1, true, Recompute::full),
      full["reduction"]);
  expect_figure(recompute_flops_share(shape, 80, 0, Recompute::full), full["extra_flops"]);
  const std::string page = printed(kModel + "--gpus 8 --memory \"192 GiB\" --recompute full");
  expect_on_line(
      page, "full",
      {full["bytes_per_layer_mb"], full["all_layers_gib"], full["reduction"], full["extra_flops"]});
  for (const auto& [strategy, fits] : full["fits"].items())
    EXPECT_EQ(line_words(page, strategy).back(), fits ? "yes" : "no") << strategy;
}

TEST(Guide, SuggestionsFor64Devices) {
  const std::string page = printed(kModel + "--gpus 64 --memory \"192 GiB\" --suggest --top 6");
  const auto found = suggest_layouts(guide_model(), {}, 64, 8, kDevice, kReserve);
  size_t place = 0;
  for (const Json& row : guide()["memory"]["suggest_64_devices"]) {
    const Layout layout = layout_of(row);
    expect_memory(layout, row);
    const std::string line = fmt::format("{:>4}  {:>6}  {:>8}  {:>4}  {}", layout.data, layout.tensor,
                                         layout.pipeline, layout.zero, to_string(layout.recompute));
    expect_on_line(page, line.substr(line.find_first_not_of(' ')),
                   {row["state_gib"], row["activations_gib"], row["total_gib"]});
    const auto same = [&](const Layout& l) {
      return l.tensor == layout.tensor && l.pipeline == layout.pipeline && l.zero == layout.zero &&
             l.recompute == layout.recompute;
    };
    EXPECT_LT(std::find_if(found.begin(), found.end(), same) - found.begin(), 6) << "row " << place;
    ++place;
  }
  EXPECT_EQ(place, 5u);
}

TEST(Guide, OtherMemoryFigures) {
  const Json& other = guide()["memory"]["other"];
  const ModelStates fp32 = model_states(7'000'000'000, {4, 4, 8}, 0, 1),
                    mixed = model_states(7'000'000'000, {}, 0, 1);
  expect_figure(static_cast<double>(fp32.total()) / 1e9, other["fp32_7b_four_tensors_gb"]);
  expect_figure(static_cast<double>(fp32.total()) / 8e9, other["over_8_devices_gb"]);
  expect_figure(static_cast<double>(mixed.total()) / 1e9, other["mixed_7b_gb"]["ddp"]);
  expect_figure(static_cast<double>(mixed.parameters) / 1e9, other["mixed_7b_gb"]["parameters"]);
  expect_figure(static_cast<double>(mixed.gradients) / 1e9, other["mixed_7b_gb"]["gradients"]);
  expect_figure(
      static_cast<double>(model_states(70'000'000'000, {}, 0, 1).total()) / static_cast<double>(kDevice),
      other["state_in_devices_of_192_gib"]);

  const std::string page = printed("memory --params 7 --bytes 4,4,8 --gpus 8");
  expect_on_line(page, "7.00 B", {other["fp32_7b_four_tensors_gb"]});
  expect_on_line(page, "= ", {other["over_8_devices_gb"]});
  expect_on_line(
      printed("memory --params 7 --gpus 8"), "7.00 B",
      {other["mixed_7b_gb"]["ddp"], other["mixed_7b_gb"]["parameters"], other["mixed_7b_gb"]["gradients"]});
  expect_on_line(printed(kModel + "--memory \"192 GiB\""), "= ", {other["state_in_devices_of_192_gib"]});
  expect_on_line(printed(kModel + "--ffn 4096 --gpus 8 --tensor 8 --explain"), "FFN columns",
                 {other["ffn_slice_4096_over_8"]});
}

CollectiveTime ring(int64_t ranks, double bytes, const LinkModel& link) {
  return collective_time(Collective::all_reduce, Algorithm::ring, ranks, bytes, link);
}

TEST(Guide, RingAllReduce) {
  const Json& part = guide()["collective"]["ring_8_ranks_50gbs_8us"];
  const LinkModel link = {8e-6, 50e9};
  const std::string page = printed("collective --gpus 8 --bw 50 --latency 8");
  expect_figure(crossover_bytes(Collective::all_reduce, Algorithm::ring, 8, link) / MiB,
                part["crossover_mib"]);
  expect_on_line(page, "latency and transfer", {part["crossover_mib"]});
  for (const Json& row : part["rows"]) {
    const double bytes = value(row["mib"]) * MiB;
    const CollectiveTime time = ring(8, bytes, link);
    expect_figure(1e3 * time.seconds(), row["ms"]);
    expect_figure(100 * time.latency_share(), row["latency_pct"]);
    expect_figure(bus_factor(Collective::all_reduce, 8) * bytes / time.seconds() / 1e9, row["busbw_gbs"]);
    expect_on_line(page, row["mib"].get<Figure>() + " ", {row["ms"], row["latency_pct"], row["busbw_gbs"]});
  }
}

TEST(Guide, TensorParallelMessages) {
  const Json& part = guide()["collective"]["tensor_parallel_70b"];
  const std::string page = printed(
      "collective --gpus 8 --bw 300 --latency 5 --inter-bw 25 --inter-latency 15 --tensor-parallel --params "
      "70 "
      "--layers 80 --hidden 8192 --sequence 4096 --micro-batch 1 --tflops 400");
  const double bytes = 4096.0 * 8192 * 2;
  const CollectiveTime inside = ring(8, bytes, {5e-6, 300e9}), between = ring(8, bytes, {15e-6, 25e9});
  const double compute_ms = 1e3 * six_flops(70e9) * 4096 / (8 * 400e12);
  expect_figure(bytes / MiB, part["message_mib"]);
  expect_figure(4 * 80, part["messages_per_micro_batch"]);
  expect_figure(six_flops(70e9) * 4096 / 1e12, part["compute_tflop"]);
  expect_figure(compute_ms, part["compute_ms_8x400tflops"]);
  expect_figure(1e3 * inside.seconds(), part["intra_300gbs_5us_ms"]);
  expect_figure(320e3 * to_microsecond(inside.seconds()), part["intra_total_ms"]);
  expect_figure(100 * 320e3 * to_microsecond(inside.seconds()) / compute_ms, part["intra_share_pct"]);
  expect_figure(1e3 * between.seconds(), part["inter_25gbs_15us_ms"]);
  expect_figure(320e3 * to_microsecond(between.seconds()), part["inter_total_ms"]);
  expect_on_line(page, "tensor 8:",
                 {part["message_mib"], part["messages_per_micro_batch"], part["compute_tflop"],
                  part["compute_ms_8x400tflops"]});
  expect_on_line(page, "in a node",
                 {part["intra_300gbs_5us_ms"], part["intra_total_ms"], part["intra_share_pct"]});
  expect_on_line(page, "between nodes", {part["inter_25gbs_15us_ms"], part["inter_total_ms"]});
}

TEST(Guide, GradientsInBuckets) {
  const Json& part = guide()["collective"]["ddp_7b_16_ranks_25gbs_15us"];
  const LinkModel link = {15e-6, 25e9};
  const std::string page = printed("collective --gpus 16 --bw 25 --latency 15 --params 7 --step-ms 900");
  expect_figure(14e9 / MiB, part["gradient_mib"]);
  expect_figure(1e3 * ring(16, 14e9, link).seconds(), part["ms"]);
  expect_figure(1e5 * ring(16, 14e9, link).seconds() / 900, part["share_of_900ms_pct"]);
  expect_figure(crossover_bytes(Collective::all_reduce, Algorithm::ring, 16, link) / MiB,
                part["crossover_mib"]);
  expect_on_line(page, "gradients of", {part["gradient_mib"], part["ms"], part["share_of_900ms_pct"]});
  expect_on_line(page, "latency and transfer", {part["crossover_mib"]});
  const std::string buckets = page.substr(page.find("bucket MiB"));
  for (const Json& row : part["buckets"]) {
    const BucketTime cut = bucketed_all_reduce(16, 14e9, value(row["mib"]) * MiB, link);
    EXPECT_EQ(cut.count, whole(row["count"]));
    expect_figure(1e3 * cut.time.seconds(), row["ms"]);
    expect_figure(100 * cut.time.latency_share(), row["latency_pct"]);
    expect_on_line(buckets, row["mib"].get<Figure>() + " ", {row["count"], row["ms"], row["latency_pct"]});
  }
}

TEST(Guide, OneLayerAgainstItsComputation) {
  const Json& part = guide()["collective"]["layer_ratio_hidden_8192_accumulation_8"];
  const std::string page =
      printed("collective --gpus 8 --bw 300 --latency 5 --layer-ratio --hidden 8192 --grad-accum 8");
  const double parameters = 12.0 * 8192 * 8192, flops = six_flops(parameters) * 8 * 4096;
  const double ms = 1e3 * ring(8, 2 * parameters, {5e-6, 300e9}).seconds(), compute_ms = 1e3 * flops / 400e12;
  expect_figure(parameters / 1e6, part["layer_mparams"]);
  expect_figure(flops / 1e12, part["tflop"]);
  expect_figure(compute_ms, part["compute_ms_400tflops"]);
  expect_figure(2 * parameters / MiB, part["gradient_mib"]);
  expect_figure(ms, part["allreduce_ms"]);
  expect_figure(ms / compute_ms, part["ratio"]);
  expect_figure(8 * ms / compute_ms, part["ratio_accumulation_1"]);
  expect_on_line(page, "parameters, 12 h^2", {part["layer_mparams"]});
  expect_on_line(page, "computation of", {part["tflop"]});
  expect_on_line(page, "at 400 TFLOP/s", {part["compute_ms_400tflops"]});
  expect_on_line(page, "gradient in 2 bytes", {part["gradient_mib"]});
  expect_on_line(page, "all-reduce", {part["allreduce_ms"]});
  expect_on_line(page, "communication over", {part["ratio"]});
  expect_on_line(page, "the same without", {part["ratio_accumulation_1"]});
}

TEST(Guide, Decoding) {
  const Json& part = guide()["collective"];
  const double ms = 1e3 * ring(8, 16384, {5e-6, 300e9}).seconds();
  expect_figure(ms, part["decode_16kib_8_ranks_300gbs_5us_ms"]);
  expect_figure(2 * 80 * ms, part["decode_80_layers_ms_per_token"]);
  expect_on_line(
      printed("collective --gpus 8 --bw 300 --latency 5 --decode --layers 80 --hidden 8192"),
      "decoding:", {part["decode_16kib_8_ranks_300gbs_5us_ms"], part["decode_80_layers_ms_per_token"]});
}

TEST(Guide, Pipelines) {
  const Json& part = guide()["pipeline"];
  constexpr Schedule s = Schedule::one_f_one_b;
  const PipelineShape eight = {8, 8, 1};
  const int64_t needed = micro_batches_for(0.9, s, eight);
  expect_figure(100 * bubble_of_capacity(s, eight), part["s8_m8"]["bubble_pct"]);
  expect_figure(100 * pipeline_efficiency(s, eight), part["s8_m8"]["efficiency_pct"]);
  expect_figure(static_cast<double>(needed), part["s8_m8"]["micro_batches_for_90pct"]);
  expect_figure(static_cast<double>(needed) / 8, part["s8_m8"]["times_stages"]);
  expect_figure(bubble_of_capacity(s, {32, 32, 1}), part["s32_m32_bubble_about"]);
  expect_figure(bubble_over_ideal(s, {4, 12, 1}), part["s4_m12_overhead"]);
  expect_figure(100 * pipeline_efficiency(s, {16, 16, 1}), part["s16_m16_efficiency_pct"]);
  expect_figure(static_cast<double>(micro_batches_for(0.9, s, {16, 16, 1})),
                part["s16_micro_batches_for_90pct"]);

  const std::string page = printed("pipeline --stages 8 --micro-batches 8");
  expect_on_line(page, "bubble of capacity", {part["s8_m8"]["bubble_pct"]});
  expect_on_line(page, "efficiency", {part["s8_m8"]["efficiency_pct"]});
  expect_on_line(page, "micro-batches for 90 %",
                 {part["s8_m8"]["micro_batches_for_90pct"], part["s8_m8"]["times_stages"]});
  expect_on_line(printed("pipeline --stages 4 --micro-batches 12"), "bubble over ideal",
                 {part["s4_m12_overhead"]});
  expect_on_line(printed("pipeline --stages 32 --micro-batches 32"), "bubble of capacity",
                 {part["s32_m32_bubble_about"]});
  const std::string sixteen = printed("pipeline --stages 16 --micro-batches 16");
  expect_on_line(sixteen, "efficiency", {part["s16_m16_efficiency_pct"]});
  expect_on_line(sixteen, "micro-batches for 90 %", {part["s16_micro_batches_for_90pct"]});
}

TEST(Guide, SweepOfPipelines) {
  const Json& part = guide()["pipeline"]["efficiency_pct"];
  const std::string page = printed("pipeline --stages 2 --micro-batches 2 --sweep");
  const std::string sweep = page.substr(page.find("efficiency %"));
  for (const auto& [stages, row] : part.items()) {
    if (stages == "columns_m") continue;
    std::vector<std::string> expected = {stages};
    for (size_t column = 0; column < row.size(); ++column) {
      const int64_t m = whole(part["columns_m"][column]);
      expect_figure(100 * pipeline_efficiency(Schedule::gpipe, {std::stoll(stages), m, 1}), row[column]);
      expected.push_back(row[column].get<Figure>());
    }
    EXPECT_EQ(line_words(sweep, stages + " "), expected);
  }
}

TEST(Guide, Stragglers) {
  const Json& part = guide()["straggler"];
  const int64_t ranks = whole(part["ranks"]);
  expect_figure(largest_normal_bound(ranks), part["sqrt_2_ln_n"]);
  expect_figure(straggler_factor(value(part["sigma"]), ranks), part["step_factor"]);
  expect_on_line(printed("straggler --ranks 1024 --sigma 0.02"), "sqrt(2 ln N)  ",
                 {part["sqrt_2_ln_n"], part["step_factor"]});
}

TEST(Guide, Checkpoints) {
  const Json& part = guide()["checkpoint_70b"];
  const double bytes = checkpoint_bytes(70e9, 16);
  expect_figure(bytes / kGib, part["bytes_gib"]);
  expect_figure(checkpoint_seconds(bytes, 10e9), part["seconds_at_10_gb_s"]);
  expect_figure(checkpoint_seconds(bytes, 200e9), part["seconds_at_200_gb_s"]);
  expect_figure(100 * share_lost(checkpoint_seconds(bytes, 10e9), 1800), part["lost_pct_every_30_min"]);
  const std::string page = printed("checkpoint --params 70 --bandwidth 10 --every-min 30");
  expect_on_line(page, "a checkpoint of", {part["bytes_gib"]});
  expect_on_line(page, "written at", {part["seconds_at_10_gb_s"]});
  expect_on_line(page, "one every", {part["lost_pct_every_30_min"]});
  expect_on_line(printed("checkpoint --params 70 --bandwidth 200"), "written at",
                 {part["seconds_at_200_gb_s"]});
}

TEST(Guide, RecomputationAsPublished) {
  const Json& part = guide()["recompute_published"];
  const LayerShape gpt3 = {2048, 1, 12288, 96};
  expect_figure(100 * recompute_flops_share(gpt3, 96, 51200, Recompute::selective),
                part["selective_extra_flops_pct_175b"]);
  expect_on_line(printed("memory --layers 96 --hidden 12288 --heads 96 --vocab 51200 --sequence 2048"),
                 "selective", {part["selective_extra_flops_pct_175b"]});
  // The 530B model on 2240 devices, 2240 sequences in 39.15 s (Korthikanti et al., section 6.3): full
  // squares.
  const std::string model =
      "throughput --layers 105 --hidden 20480 --heads 128 --vocab 51200 --sequence 2048 "
      "--attention full --gpus 2240 --peak-tflops 312 ";
  const double tokens_per_second = 2240 * 2048 / 39.15;
  expect_on_line(printed(model + fmt::format("--tokens-per-second {}", tokens_per_second)), "MFU",
                 {part["mfu_selective_pct"]});
  // From utilisation to tokens and back.
  for (const char* name : {"mfu_full_pct", "mfu_selective_pct"}) {
    const std::string page = printed(model + fmt::format("--mfu {}", value(part[name]) / 100));
    expect_on_line(page, "MFU", {part[name]});
    const std::string tokens = line_words(page.substr(page.find("\n\n") + 2), "")[0];
    expect_on_line(printed(model + "--tokens-per-second " + tokens), "MFU", {part[name]});
  }
}

}  // namespace
}  // namespace muster::estimate
