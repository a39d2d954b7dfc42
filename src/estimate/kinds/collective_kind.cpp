#include <algorithm>
#include <cmath>
#include <optional>

#include "base/table.h"
#include "estimate/collective.h"
#include "estimate/kinds/kind.h"
#include "estimate/kinds/model_options.h"
#include "estimate/kinds/numbers.h"
#include "estimate/memory.h"
#include "estimate/throughput.h"

namespace muster::estimate {
namespace {

constexpr const char* kOps[] = {"allreduce",  "reduce_scatter", "all_gather",
                                "all_to_all", "broadcast",      "p2p"};
constexpr const char* kAlgorithms[] = {"ring", "tree", "one-shot", "hierarchical"};
constexpr size_t kHierarchical = 3;
constexpr double kSizesMib[] = {0.25, 1, 4, 16, 64, 256, 1024};
constexpr double kBucketsMib[] = {1, 4, 25, 100, 400};
constexpr int64_t kNodes[] = {1, 2, 4, 8, 16, 32, 64, 128};
constexpr double kMib = static_cast<double>(MiB);

struct Gradient {
  double parameters = 0;
  std::optional<double> step_ms;
};

struct LayerRatio {
  double hidden = 0, accumulation = 1, tokens = 0, tflops = 0;
};

struct TensorParallel {
  ModelRequest model;
  int64_t micro_batch = 1;
  double tflops = 0;
};

struct Decode {
  ModelRequest model;
  int64_t batch = 1;
};

struct Request {
  int64_t gpus = 1;
  LinkModel link;
  Collective op = Collective::all_reduce;
  Algorithm algorithm = Algorithm::ring;
  bool hierarchical = false;
  int64_t per_node = 0;  // 0: one tier
  std::optional<LinkModel> between;
  std::optional<int64_t> bytes;
  std::optional<Gradient> gradient;
  std::optional<LayerRatio> layer_ratio;
  std::optional<TensorParallel> tensor_parallel;
  std::optional<Decode> decode;
};

double milliseconds(const CollectiveTime& time) {
  return 1e3 * time.seconds();
}

Json json_of(const CollectiveTime& time) {
  return {{"ms", milliseconds(time)},
          {"latency_ms", 1e3 * time.latency_seconds},
          {"transfer_ms", 1e3 * time.transfer_seconds},
          {"latency_share", time.latency_share()}};
}

LinkModel link_of(double gigabytes_per_second, double microseconds) {
  return {microseconds * 1e-6, gigabytes_per_second * 1e9};
}

std::string say(const LinkModel& link) {
  return fmt::format("{} GB/s, {} us", plain(link.bytes_per_second / 1e9), plain(link.latency_seconds * 1e6));
}

void check(const Request& r, Problems& problems) {
  if (!r.hierarchical && !has_algorithm(r.op, r.algorithm))
    problems.add("--algorithm", "tree", "is for allreduce and broadcast", "use ring or one-shot");
  if (r.hierarchical && r.op != Collective::all_reduce)
    problems.add("--algorithm", "hierarchical", "is for allreduce", "leave --op out");
  if (r.hierarchical && r.per_node == 0)
    problems.add("--gpus-per-node", "", "is needed by hierarchical", "give it with --inter-bw");
  if (r.per_node > 0 && !r.between)
    problems.add("--inter-bw", "", "is needed beside --gpus-per-node", "give the network's GB/s a device");
  if (r.per_node > 0 && r.gpus % r.per_node != 0)
    problems.add("--gpus", std::to_string(r.gpus),
                 fmt::format("is not a multiple of --gpus-per-node {}", r.per_node), "use whole nodes");
  if (r.gpus < 2)
    problems.add("--gpus", std::to_string(r.gpus), "must be at least 2", "one device sends nothing");
}

void need(Options& options, const char* name, int64_t value) {
  if (value == 0) options.problems().add(name, "", "is needed", "give it, or a --preset");
}

LayerRatio read_layer_ratio(Options& options) {
  LayerRatio r;
  r.hidden = static_cast<double>(options.required_count("--hidden"));
  r.accumulation = static_cast<double>(options.count("--grad-accum", 1));
  r.tokens = static_cast<double>(options.count("--sequence", 4096) * options.count("--micro-batch", 1));
  r.tflops = options.quantity("--tflops", 400);
  return r;
}

TensorParallel read_tensor_parallel(Options& options) {
  TensorParallel r;
  r.model = read_model(options, {"--preset", "--params", "--layers", "--hidden", "--sequence"});
  need(options, "--layers", r.model.layers);
  need(options, "--hidden", r.model.hidden);
  need(options, "--sequence", r.model.sequence);
  r.micro_batch = options.count("--micro-batch", 1);
  r.tflops = options.quantity("--tflops", 400);
  return r;
}

Decode read_decode(Options& options) {
  Decode r;
  r.model = read_model(options, {"--preset", "--layers", "--hidden"});
  need(options, "--layers", r.model.layers);
  need(options, "--hidden", r.model.hidden);
  r.batch = options.count("--batch", 1);
  return r;
}

std::optional<Gradient> read_gradient(Options& options) {
  if (!options.given("--params") && !options.given("--preset")) return std::nullopt;
  const ModelRequest model = read_model(options, {"--preset", "--params"});
  return Gradient{static_cast<double>(model.parameters.total()), options.quantity("--step-ms")};
}

// What else was asked for; --params belongs to the tensor-parallel part where there is one.
void read_parts(Options& options, Request& r) {
  if (options.flag("--layer-ratio")) r.layer_ratio = read_layer_ratio(options);
  const bool tensor = options.flag("--tensor-parallel"), decode = options.flag("--decode");
  if (tensor) r.tensor_parallel = read_tensor_parallel(options);
  if (decode) r.decode = read_decode(options);
  if (!tensor && !decode) r.gradient = read_gradient(options);
}

Request read(Options& options) {
  Request r;
  r.gpus = options.required_count("--gpus");
  r.link = link_of(options.required_quantity("--bw"), options.required_quantity("--latency"));
  r.op = static_cast<Collective>(options.choice("--op", kOps, 0));
  const size_t algorithm = options.choice("--algorithm", kAlgorithms, 0);
  r.hierarchical = algorithm == kHierarchical;
  r.algorithm = r.hierarchical ? Algorithm::ring : static_cast<Algorithm>(algorithm);
  r.per_node = options.count("--gpus-per-node", 0);
  if (const auto bandwidth = options.quantity("--inter-bw"))
    r.between = link_of(*bandwidth, options.quantity("--inter-latency", r.link.latency_seconds * 1e6));
  r.bytes = options.bytes("--bytes");
  read_parts(options, r);
  check(r, options.problems());
  options.finish();
  return r;
}

// The link that sets the pace of a flat group: the slower one where it leaves the node.
LinkModel pace(const Request& r) {
  if (r.per_node == 0 || r.gpus <= r.per_node) return r.link;
  return {std::max(r.link.latency_seconds, r.between->latency_seconds),
          std::min(r.link.bytes_per_second, r.between->bytes_per_second)};
}

CollectiveTime time_of(const Request& r, double bytes) {
  if (r.hierarchical)
    return hierarchical_all_reduce(r.gpus / r.per_node, r.per_node, bytes, r.link, *r.between);
  return collective_time(r.op, r.algorithm, r.gpus, bytes, pace(r));
}

double crossover(const Request& r) {
  if (!r.hierarchical) return crossover_bytes(r.op, r.algorithm, r.gpus, pace(r));
  const CollectiveTime one_byte = time_of(r, 1);
  return one_byte.latency_seconds / one_byte.transfer_seconds;
}

void add_sizes(const Request& r, Answer& answer) {
  std::vector<double> sizes;
  if (r.bytes)
    sizes = {static_cast<double>(*r.bytes)};
  else
    for (double size : kSizesMib) sizes.push_back(size * kMib);
  Table table({"MiB", "ms", "latency %", "busbw GB/s", "bound by"});
  Json rows = Json::array();
  for (double bytes : sizes) {
    const CollectiveTime time = time_of(r, bytes);
    const double busbw = bus_factor(r.op, r.gpus) * bytes / time.seconds();
    const char* bound = time.latency_share() > 0.5 ? "latency" : "bandwidth";
    Json row = json_of(time);
    row.update({{"bytes", std::llround(bytes)}, {"busbw_bytes_per_second", busbw}, {"bound", bound}});
    rows.push_back(row);
    table.add({plain(std::round(bytes / kMib * 1e6) / 1e6), decimal(milliseconds(time), 3),
               percent(time.latency_share()), gb(busbw), bound});
  }
  answer.json["crossover_bytes"] = crossover(r);
  answer.json["rows"] = rows;
  answer.text +=
      table.text() + fmt::format("latency and transfer are equal at {} MiB{}\n", mib(crossover(r), 2),
                                 r.algorithm == Algorithm::ring && !r.hierarchical && r.op != Collective::p2p
                                     ? " = P alpha B"
                                     : "");
}

void add_tiers(const Request& r, Answer& answer) {
  const double bytes = static_cast<double>(r.bytes.value_or(256 * MiB));
  constexpr const char* names[] = {"one ring", "a ring a card", "hierarchical"};
  Table table({"nodes", "devices", "one ring ms", "a ring a card ms", "hierarchical ms", "fastest"});
  Json rows = Json::array();
  for (int64_t nodes : kNodes) {
    const CollectiveTime times[] = {flat_all_reduce(nodes, r.per_node, bytes, r.link, *r.between),
                                    multi_ring_all_reduce(nodes, r.per_node, bytes, r.link, *r.between),
                                    hierarchical_all_reduce(nodes, r.per_node, bytes, r.link, *r.between)};
    const auto faster = [](const CollectiveTime& a, const CollectiveTime& b) {
      return a.seconds() < b.seconds();
    };
    const auto fastest = std::min_element(std::begin(times), std::end(times), faster) - std::begin(times);
    rows.push_back({{"nodes", nodes},
                    {"devices", nodes * r.per_node},
                    {"flat", json_of(times[0])},
                    {"multi_ring", json_of(times[1])},
                    {"hierarchical", json_of(times[2])},
                    {"fastest", names[fastest]}});
    table.add({std::to_string(nodes), std::to_string(nodes * r.per_node), decimal(milliseconds(times[0]), 3),
               decimal(milliseconds(times[1]), 3), decimal(milliseconds(times[2]), 3),
               nodes == 1 ? "the same" : names[fastest]});
  }
  answer.json["tiers"] = rows;
  answer.text += fmt::format("\nall-reduce of {} MiB over nodes of {}, {} a device between them\n",
                             mib(bytes, 0), r.per_node, say(*r.between)) +
                 table.text();
}

void add_gradient(const Request& r, const Gradient& gradient, Answer& answer) {
  const auto& [parameters, step_ms] = gradient;
  const double bytes = 2 * parameters;
  const CollectiveTime whole =
      collective_time(Collective::all_reduce, Algorithm::ring, r.gpus, bytes, pace(r));
  Table table({"bucket MiB", "count", "ms", "latency %"});
  Json rows = Json::array();
  for (double size : kBucketsMib) {
    const BucketTime cut = bucketed_all_reduce(r.gpus, bytes, size * kMib, pace(r));
    Json row = json_of(cut.time);
    row.update({{"bucket_bytes", std::llround(size * kMib)}, {"count", cut.count}});
    rows.push_back(row);
    table.add({plain(size), std::to_string(cut.count), decimal(milliseconds(cut.time), 1),
               percent(cut.time.latency_share())});
  }
  answer.json["gradient"] = {
      {"parameters", parameters}, {"bytes", bytes}, {"time", json_of(whole)}, {"buckets", rows}};
  answer.json["zero_volume_in_parameters"] = {zero_volume(0), zero_volume(1), zero_volume(2), zero_volume(3)};
  answer.text += fmt::format("\ngradients of {} parameters in 2 bytes: {} MiB, all-reduced in {} ms",
                             format_count(parameters), mib(bytes, 0), decimal(milliseconds(whole), 1));
  if (step_ms) {
    const double share = milliseconds(whole) / *step_ms;
    answer.json["gradient"]["share_of_step"] = share;
    answer.text += fmt::format(", {} % of a step of {} ms", percent(share), plain(*step_ms));
  }
  answer.text += "\n" + table.text() +
                 fmt::format("volume a step for ZeRO 0, 1, 2, 3: {}, {}, {}, {} times the parameters\n",
                             zero_volume(0), zero_volume(1), zero_volume(2), zero_volume(3));
}

// One layer's gradient all-reduce against its computation: 12 h^2 parameters of a GPT layer.
void add_layer_ratio(const Request& r, const LayerRatio& request, Answer& answer) {
  const auto& [hidden, accumulation, tokens, tflops] = request;
  const double parameters = 12 * hidden * hidden;
  const double flops = six_flops(parameters) * tokens * accumulation;
  const double compute_ms = 1e3 * flops / (tflops * 1e12);
  const CollectiveTime time =
      collective_time(Collective::all_reduce, Algorithm::ring, r.gpus, 2 * parameters, pace(r));
  const double ratio = milliseconds(time) / compute_ms;
  answer.json["layer_ratio"] = {{"parameters", parameters},
                                {"flops", flops},
                                {"compute_ms", compute_ms},
                                {"gradient_bytes", 2 * parameters},
                                {"allreduce", json_of(time)},
                                {"ratio", ratio},
                                {"ratio_accumulation_1", ratio * accumulation}};
  Table table({"one layer", ""});
  table.add({"parameters, 12 h^2", decimal(parameters / 1e6, 1) + " M"});
  table.add({fmt::format("computation of {} x {} tokens", plain(accumulation), plain(tokens)),
             decimal(flops / 1e12, 2) + " TFLOP"});
  table.add({fmt::format("at {} TFLOP/s", plain(tflops)), decimal(compute_ms, 3) + " ms"});
  table.add({"gradient in 2 bytes", mib(2 * parameters, 1) + " MiB"});
  table.add({"all-reduce", decimal(milliseconds(time), 3) + " ms"});
  table.add({"communication over computation", decimal(ratio, 3)});
  table.add({"the same without accumulation", decimal(ratio * accumulation, 2)});
  answer.text += "\n" + table.text();
}

void add_message_row(const char* where, const LinkModel& link, const Request& r, double bytes,
                     int64_t messages, double compute_ms, Table& table, Json& rows) {
  const CollectiveTime time = collective_time(Collective::all_reduce, Algorithm::ring, r.gpus, bytes, link);
  const double total_ms = 1e3 * to_microsecond(time.seconds()) * static_cast<double>(messages);
  Json row = json_of(time);
  row.update({{"where", where}, {"total_ms", total_ms}, {"share_of_compute", total_ms / compute_ms}});
  rows.push_back(row);
  table.add({where, say(link), decimal(milliseconds(time), 3), decimal(total_ms, 0),
             percent(total_ms / compute_ms, 0)});
}

// A layer's four all-reduces (two forward, two backward; Shoeybi et al., "Megatron-LM", 2019, section 3) of
// s*b*h elements against the computation of the model over the group.
void add_tensor_parallel(const Request& r, const TensorParallel& request, Answer& answer) {
  const auto& [model, micro_batch, tflops] = request;
  const double tokens = static_cast<double>(model.sequence * micro_batch);
  const double bytes = 2 * tokens * static_cast<double>(model.hidden);
  const int64_t messages = 4 * model.layers;
  const double flops = six_flops(static_cast<double>(model.parameters.total())) * tokens;
  const double compute_ms = 1e3 * flops / (tflops * 1e12 * static_cast<double>(r.gpus));
  Table table({"tensor group", "link", "ms a message", "ms a micro-batch", "% of computation"});
  Json rows = Json::array();
  add_message_row("in a node", r.link, r, bytes, messages, compute_ms, table, rows);
  if (r.between) add_message_row("between nodes", *r.between, r, bytes, messages, compute_ms, table, rows);
  answer.json["tensor_parallel"] = {{"message_bytes", bytes},
                                    {"messages_per_micro_batch", messages},
                                    {"flops", flops},
                                    {"compute_ms", compute_ms},
                                    {"links", rows}};
  answer.text += fmt::format(
      "\ntensor {}: {} all-reduces a micro-batch of {} MiB each, beside {} TFLOP = {} ms at {} x {} "
      "TFLOP/s\n{}",
      r.gpus, messages, mib(bytes, 0), decimal(flops / 1e12, 0), decimal(compute_ms, 0), r.gpus,
      plain(tflops), table.text());
}

// Two all-reduces a layer of one token's activations.
void add_decode(const Request& r, const Decode& request, Answer& answer) {
  const auto& [model, batch] = request;
  const double bytes = 2 * static_cast<double>(model.hidden * batch);
  const CollectiveTime time = collective_time(Collective::all_reduce, Algorithm::ring, r.gpus, bytes, r.link);
  const double token_ms = 2 * static_cast<double>(model.layers) * milliseconds(time);
  answer.json["decode"] = {{"message_bytes", bytes}, {"time", json_of(time)}, {"ms_per_token", token_ms}};
  answer.text +=
      fmt::format("\ndecoding: an all-reduce of {} KiB takes {} ms, {} layers {} ms a token\n",
                  plain(bytes / 1024), decimal(milliseconds(time), 3), model.layers, decimal(token_ms, 0));
}

}  // namespace

Answer collective_answer(Options& options) {
  const Request r = read(options);
  const char* algorithm = kAlgorithms[r.hierarchical ? kHierarchical : static_cast<size_t>(r.algorithm)];
  const LinkModel link = r.hierarchical ? r.link : pace(r);
  Answer answer;
  answer.json = {{"kind", "collective"},
                 {"gpus", r.gpus},
                 {"op", kOps[static_cast<size_t>(r.op)]},
                 {"algorithm", algorithm},
                 {"latency_seconds", link.latency_seconds},
                 {"bandwidth_bytes_per_second", link.bytes_per_second}};
  answer.text = fmt::format("{} {} over {} devices at {}\n", algorithm, kOps[static_cast<size_t>(r.op)],
                            r.gpus, say(link));
  add_sizes(r, answer);
  if (r.per_node > 0) add_tiers(r, answer);
  if (r.gradient) add_gradient(r, *r.gradient, answer);
  if (r.layer_ratio) add_layer_ratio(r, *r.layer_ratio, answer);
  if (r.tensor_parallel) add_tensor_parallel(r, *r.tensor_parallel, answer);
  if (r.decode) add_decode(r, *r.decode, answer);
  return answer;
}

}  // namespace muster::estimate
