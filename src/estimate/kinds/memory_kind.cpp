#include <algorithm>
#include <cmath>

#include "base/table.h"
#include "estimate/kinds/kind.h"
#include "estimate/kinds/memory_request.h"
#include "estimate/kinds/numbers.h"
#include "spec/model/model.h"

namespace muster::estimate {
namespace {

Json json_of(const Layout& layout) {
  return {{"data", layout.data},
          {"tensor", layout.tensor},
          {"pipeline", layout.pipeline},
          {"context", layout.context},
          {"expert", layout.expert},
          {"expert_tensor", layout.expert_tensor},
          {"zero", layout.zero},
          {"recompute", to_string(layout.recompute)},
          {"schedule", to_string(layout.schedule)},
          {"chunks", layout.chunks}};
}

Json json_of(const MemoryRequest& r, const DeviceMemory& memory) {
  const int64_t total = total_bytes(memory, r.reserve_bytes);
  return {{"parameter_bytes", memory.states.parameters},
          {"gradient_bytes", memory.states.gradients},
          {"optimizer_bytes", memory.states.optimizer},
          {"gathered_bytes", memory.gathered},
          {"state_bytes", memory.state()},
          {"micro_batches_in_flight", memory.in_flight},
          {"activation_bytes", r.has_shape() ? Json(memory.activations) : Json()},
          {"logits_bytes", memory.head},
          {"reserve_bytes", r.reserve_bytes},
          {"total_bytes", total},
          {"fits", r.device_bytes ? Json(total <= *r.device_bytes) : Json()}};
}

std::string fits(const MemoryRequest& r, int64_t total) {
  if (!r.device_bytes) return "unknown";
  return total <= *r.device_bytes ? "yes" : "no";
}

std::string activations(const MemoryRequest& r, const DeviceMemory& memory) {
  return r.has_shape() ? gib(memory.activations) : "unknown";
}

DeviceMemory fullest(const MemoryRequest& r, const Layout& layout) {
  return memory_on_stage(r.model, r.bytes, layout, fullest_stage(r.model, r.bytes, layout, r.reserve_bytes));
}

void add_states(const MemoryRequest& r, Answer& answer) {
  const int64_t count = r.model.parameters.total();
  const ModelStates whole = model_states(count, r.bytes, 0, 1);
  answer.json["parameters"] = count;
  answer.json["whole_state_bytes"] = whole.total();
  answer.text += fmt::format(
      "{}: {} parameters x {} bytes = {} GB of model states (parameters {}, gradients {}, optimizer {})\n= "
      "{} GiB",
      r.named.name, format_exact(count), plain(r.bytes.total()), gb(static_cast<double>(whole.total()), 0),
      gb(static_cast<double>(whole.parameters), 0), gb(static_cast<double>(whole.gradients), 0),
      gb(static_cast<double>(whole.optimizer), 0), gib(whole.total()));
  if (r.gpus > 1)
    answer.text +=
        fmt::format(", {} GB over {} devices",
                    gb(static_cast<double>(whole.total()) / static_cast<double>(r.gpus), 0), r.gpus);
  if (r.device_bytes)
    answer.text += fmt::format(
        ", {} devices of {}",
        decimal(static_cast<double>(whole.total()) / static_cast<double>(*r.device_bytes), 1), r.device);
  answer.text += "\n";
}

void add_strategies(const MemoryRequest& r, Answer& answer) {
  Table table({r.one_layout ? "layout" : "strategy", "state GiB", "activations", "reserve", "total", "fits"});
  Json rows = Json::array();
  for (const NamedLayout& named : r.layouts) {
    const DeviceMemory memory = fullest(r, named.layout);
    const int64_t total = total_bytes(memory, r.reserve_bytes);
    Json row = {{"strategy", named.name}};
    row.update(json_of(named.layout));
    row.update(json_of(r, memory));
    rows.push_back(row);
    table.add({named.name, gib(memory.state()), activations(r, memory), gib(r.reserve_bytes), gib(total),
               fits(r, total)});
  }
  answer.json["strategies"] = rows;
  answer.text += fmt::format("\none device of {}, recompute {}{}\n", r.gpus, to_string(r.recompute),
                             r.device.empty() ? "" : ", a device is " + r.device) +
                 table.text();
}

void add_notes(const MemoryRequest& r, Answer& answer) {
  if (!r.has_shape())
    answer.text += "activations need --layers, --hidden, --heads and --sequence, or a --preset\n";
  if (r.model.vocab > 0 && r.has_shape()) {
    const int64_t logits = head_bytes(r.model.shape, r.model.vocab, 1);
    answer.text += fmt::format(
        "logits and loss take {} GiB on an undivided last stage, out of the reserve{}\n", gib(logits, 2),
        logits > r.reserve_bytes ? " and beyond: the excess is in the total" : "");
  }
  if (!r.sequence_parallel || !r.has_shape()) return;
  if (std::any_of(r.layouts.begin(), r.layouts.end(),
                  [](const NamedLayout& l) { return l.layout.tensor > 1; }))
    answer.text += "tensor groups use sequence parallelism: all activations over T\n";
}

std::string layer_formula(const LayerShape& shape) {
  const std::string scores = plain(score_factor(shape));
  if (!shape.is_llama()) return "34 + 5as/h = 34 + " + scores;
  const std::string kept = plain(std::round(1e6 * (whole_factor(shape) + divided_factor(shape))) / 1e6);
  return fmt::format("8 + (4q + 4kv + 8f)/h + 4as/h = {} + {}", kept, scores);
}

// One micro-batch through one device, under each recomputation.
void add_recompute(const MemoryRequest& r, Answer& answer) {
  if (!r.has_shape()) return;
  const LayerShape& shape = r.model.shape;
  const double none = activation_factor(shape, 1, true, Recompute::none);
  Table table({"recompute", "bytes / sbh", "MB a layer", "GiB a layer", "all layers GiB", "times less",
               "extra FLOPs"});
  Json rows = Json::array();
  for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    const double factor = activation_factor(shape, 1, true, recompute);
    const int64_t layer = activation_bytes_per_layer(shape, 1, true, recompute);
    const double extra = recompute_flops_share(shape, r.model.layers, r.model.vocab, recompute);
    rows.push_back({{"recompute", to_string(recompute)},
                    {"bytes_per_sbh", factor},
                    {"layer_bytes", layer},
                    {"all_layers_bytes", layer * r.model.layers},
                    {"reduction", none / factor},
                    {"extra_flops", extra}});
    table.add({to_string(recompute), plain(std::round(factor * 1e6) / 1e6),
               decimal(static_cast<double>(layer) / 1e6, 1), gib(layer, 2), gib(layer * r.model.layers),
               decimal(none / factor, 0), fmt::format("{} ({} %)", decimal(extra, 2), percent(extra))});
  }
  answer.json["activations"] = {{"score_factor", score_factor(shape)}, {"recompute", rows}};
  answer.json["activations"]["layer"] = shape.is_llama() ? "llama" : "classic";
  answer.text +=
      fmt::format("\nactivations of one micro-batch of {} x {} tokens, {} layer: {}\n", shape.micro_batch,
                  shape.sequence, shape.is_llama() ? "Llama" : "classic GPT", layer_formula(shape)) +
      table.text();
}

void add_stages(const MemoryRequest& r, Answer& answer) {
  const Layout& layout = r.layouts[0].layout;
  Table table({"stage", "parameters", "state GiB", "in flight", "activations", "logits", "total", "fits"});
  Json rows = Json::array();
  for (int64_t stage = 0; stage < layout.pipeline; ++stage) {
    const DeviceMemory memory = memory_on_stage(r.model, r.bytes, layout, stage);
    const int64_t total = total_bytes(memory, r.reserve_bytes);
    const int64_t held = parameters_on_stage(r.model, layout, stage).total();
    Json row = {{"stage", stage}, {"parameters", held}};
    row.update(json_of(r, memory));
    rows.push_back(row);
    table.add({std::to_string(stage), format_exact(held), gib(memory.state()), plain(memory.in_flight),
               activations(r, memory), gib(memory.head, 2), gib(total), fits(r, total)});
  }
  answer.json["stages"] = rows;
  answer.text +=
      fmt::format("\nby stage, {}, micro-batches in flight\n", to_string(layout.schedule)) + table.text();
}

void add_suggestions(const MemoryRequest& r, Answer& answer) {
  const auto layouts =
      suggest_layouts(r.model, r.bytes, r.gpus, r.gpus_per_node, *r.device_bytes, r.reserve_bytes);
  Table table({"data", "tensor", "pipeline", "ZeRO", "recompute", "state GiB", "activations", "total"});
  Json rows = Json::array();
  for (const Layout& layout : layouts) {
    if (static_cast<int64_t>(rows.size()) == r.suggestions) break;
    const DeviceMemory memory = fullest(r, layout);
    Json row = json_of(layout);
    row.update(json_of(r, memory));
    rows.push_back(row);
    table.add({std::to_string(layout.data), std::to_string(layout.tensor), std::to_string(layout.pipeline),
               std::to_string(layout.zero), to_string(layout.recompute), gib(memory.state()),
               gib(memory.activations), gib(total_bytes(memory, r.reserve_bytes))});
  }
  answer.json["suggestions"] = rows;
  answer.json["fitting"] = layouts.size();
  answer.text += fmt::format(
                     "\n{} layouts of {} devices fit; least disruptive first: cuts of the model (tensor x "
                     "pipeline), then recomputation, then ZeRO, then tensor before pipeline\n",
                     layouts.size(), r.gpus) +
                 (layouts.empty() ? "" : table.text());
}

void add_kv_cache(const MemoryRequest& r, Answer& answer) {
  const CacheShape shape = r.cache_shape();
  const int64_t tensor = r.cache_tensor();
  const int64_t sequence = cache_bytes_per_sequence(shape, tensor);
  const int64_t copies = tensor / cache_divisor(shape, tensor);
  const int64_t weights = std::llround(static_cast<double>(r.model.parameters.total()) * r.bytes.parameter /
                                       static_cast<double>(tensor));
  const int64_t scores = score_matrix_bytes(r.batch, r.model.shape.heads, shape.sequence, shape.bytes);
  Json cache = {{"tensor", tensor},
                {"copies", copies},
                {"sequence_bytes", sequence},
                {"batch", r.batch},
                {"batch_bytes", sequence * r.batch},
                {"weight_bytes", weights},
                {"score_matrix_bytes", scores}};
  Table table({fmt::format("inference, on each of {} tensor ranks", tensor), "GiB"});
  table.add({"weights", gib(weights, 2)});
  table.add({fmt::format("cache of one sequence of {} tokens", shape.sequence), gib(sequence, 3)});
  table.add({fmt::format("cache of {} sequences", r.batch), gib(sequence * r.batch, 2)});
  table.add({"a layer's scores, B H L^2 b, that flash attention avoids (all ranks)", gib(scores, 2)});
  answer.text += "\n" + table.text();
  if (copies > 1)
    answer.text +=
        fmt::format("{} KV heads over {} ranks: each is held {} times\n", shape.kv_heads, tensor, copies);
  if (r.device_bytes) {
    const int64_t most = largest_batch(*r.device_bytes, r.reserve_bytes, weights, sequence);
    cache["largest_batch"] = most;
    answer.text += fmt::format("beside the weights and the reserve {} sequences fit\n", most);
  }
  answer.json["kv_cache"] = cache;
}

void add_derivations(const MemoryRequest& r, Answer& answer) {
  Json all = Json::array();
  for (const NamedLayout& named : r.layouts) {
    Table table({"term", "formula", "numbers", "source"});
    for (const Derivation& line : explain_memory(r, named)) {
      table.add({line.term, line.formula, line.numbers, line.source});
      all.push_back({{"strategy", named.name},
                     {"term", line.term},
                     {"formula", line.formula},
                     {"numbers", line.numbers},
                     {"source", line.source}});
    }
    answer.text += "\n" + named.name + "\n" + table.text();
  }
  answer.json["derivations"] = all;
}

Answer presets_answer() {
  Answer answer;
  Json list = Json::array();
  Table table({"preset", "parameters", "layers", "hidden", "heads", "kv heads", "ffn", "vocab"});
  for (const std::string& name : spec::preset_names()) {
    const Dimensions d = dimensions_of(spec::preset(name));
    const int64_t count = count_parameters(d).total();
    list.push_back({{"name", name}, {"parameters", count}});
    table.add({name, format_exact(count), std::to_string(d.layers), std::to_string(d.hidden),
               std::to_string(d.heads), std::to_string(d.kv_heads), std::to_string(d.ffn),
               std::to_string(d.vocab)});
  }
  answer.json = {{"kind", "presets"}, {"presets", list}};
  answer.text = table.text();
  return answer;
}

}  // namespace

Answer memory_answer(Options& options) {
  if (options.flag("--list-presets")) {
    options.finish();
    return presets_answer();
  }
  const MemoryRequest r = read_memory_request(options);
  Answer answer;
  answer.json = {
      {"kind", "memory"},
      {"model", r.named.name},
      {"gpus", r.gpus},
      {"bytes_per_parameter",
       {{"parameter", r.bytes.parameter}, {"gradient", r.bytes.gradient}, {"optimizer", r.bytes.optimizer}}},
      {"device", r.device.empty() ? Json() : Json(r.device)},
      {"device_bytes", r.device_bytes ? Json(*r.device_bytes) : Json()},
      {"recompute", to_string(r.recompute)}};
  add_states(r, answer);
  add_strategies(r, answer);
  if (r.one_layout && r.layouts[0].layout.pipeline > 1) add_stages(r, answer);
  add_notes(r, answer);
  add_recompute(r, answer);
  if (r.suggestions > 0) add_suggestions(r, answer);
  if (r.kv_cache) add_kv_cache(r, answer);
  if (r.explain) add_derivations(r, answer);
  return answer;
}

}  // namespace muster::estimate
