#include "estimate/kinds/memory_request.h"

#include <algorithm>
#include <cmath>

#include "estimate/kinds/numbers.h"
#include "spec/hardware/hardware.h"

namespace muster::estimate {
namespace {

constexpr double kMostBillions = 1e6;
constexpr double kMostBytes = 1e18;                                // what 64 bits count with room for sums
constexpr int64_t kMostDegree = 1 << 14, kMostReplicas = 1 << 20;  // their product is countable too
constexpr int64_t kMostInFlight = 1 << 12;                         // micro-batches
constexpr double kMostBytesPerParameter = 1000;
constexpr const char* kRecompute[] = {"none", "selective", "full"};
constexpr const char* kLayers[] = {"classic", "llama"};
constexpr size_t kLlama = 1;
constexpr const char* kSchedules[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};
constexpr const char* kZero[] = {"0", "1", "2", "3"};
constexpr const char* kLayoutOptions[] = {"--data", "--tensor", "--pipeline",     "--context",
                                          "--zero", "--expert", "--expert-tensor"};

void divides(Problems& problems, const char* option, int64_t degree, int64_t whole, const std::string& what) {
  if (degree > 0 && whole > 0 && whole % degree != 0)
    problems.add(option, std::to_string(degree), fmt::format("does not divide {} {}", whole, what),
                 "choose a divisor");
}

void read_device(Options& options, MemoryRequest& r) {
  const auto name = options.text("--device");
  const auto memory = options.bytes("--memory");
  if (name && memory)
    options.problems().add("--memory", "", "is given beside --device", "keep one of the two");
  if (memory) r.device_bytes = memory, r.device = format_bytes(*memory);
  if (!name) return;
  options.problems().gather([&] {
    const spec::Hardware hardware = spec::load_hardware(*name);
    r.device = hardware.name;
    if (hardware.memory_bytes > 0) r.device_bytes = hardware.memory_bytes;
  });
}

void read_bytes_per_parameter(Options& options, BytesPerParameter& bytes) {
  if (!options.given("--bytes")) return;
  const auto values = options.quantities("--bytes");
  for (double value : values)
    if (value > kMostBytesPerParameter)
      options.problems().add("--bytes", plain(value), "is more than 1000 bytes a parameter", "correct it");
  if (values.size() == 3)
    bytes = {values[0], values[1], values[2]};
  else
    options.problems().add("--bytes", std::to_string(values.size()) + " numbers",
                           "must be three: parameter, gradient, optimizer state", "write 2,2,12");
}

void read_model_shape(Options& options, MemoryRequest& r) {
  r.named = read_model(options, {"--preset", "--params", "--layers", "--hidden", "--heads", "--kv-heads",
                                 "--head-dim", "--ffn", "--vocab", "--sequence"});
  r.model.parameters = r.named.parameters;
  if (const auto billions = options.quantity("--expert-params")) {
    if (*billions > kMostBillions)
      options.problems().add("--expert-params", plain(*billions), "is in billions: at most 1000000",
                             "correct it");
    else
      r.model.parameters.expert = std::llround(*billions * 1e9);
  }
  r.model.tied = r.named.tied;
  r.model.layers = r.named.layers;
  r.model.vocab = r.named.vocab;
  r.model.shape = {r.named.sequence, options.count("--micro-batch", 1), r.named.hidden, r.named.heads};
  if (options.choice("--layer", kLayers, 0) == kLlama) {
    r.model.shape.query_width = r.named.heads * r.named.head_dim;
    r.model.shape.kv_width = r.named.kv_heads * r.named.head_dim;
    r.model.shape.gated_ffn = r.named.ffn;
    if (r.named.ffn == 0)
      options.problems().add("--ffn", "", "is needed by --layer llama", "give it, or a --preset");
  }
  if (r.model.parameters.total() == 0 && !options.given("--preset"))
    options.problems().add("--preset", "", "or --params or --layers and --hidden are needed",
                           "say which model");
  if (r.named.heads > 0 && (r.named.hidden == 0 || r.named.layers == 0))
    options.problems().add("--heads", "", "needs --layers and --hidden", "give them");
}

// Degrees that follow: data from the devices, or the devices from the degrees.
void complete_devices(Options& options, MemoryRequest& r, Layout& layout) {
  const auto data = options.count_up_to("--data", kMostReplicas);
  const auto gpus = options.count("--gpus");
  const int64_t cut = layout.tensor * layout.pipeline * layout.context;
  if (data)
    layout.data = *data;
  else if (gpus && *gpus % cut == 0)
    layout.data = *gpus / cut;
  else if (gpus)
    options.problems().add("--gpus", std::to_string(*gpus),
                           fmt::format("is not a multiple of tensor * pipeline * context = {}", cut),
                           "use whole replicas");
  r.gpus = gpus.value_or(layout.devices());
  if (data && gpus && layout.devices() != *gpus)
    options.problems().add("--gpus", std::to_string(*gpus),
                           fmt::format("is not data * tensor * pipeline * context = {}", layout.devices()),
                           "leave --gpus or --data out");
}

void check_layout(const MemoryRequest& r, const Layout& layout, Problems& problems) {
  divides(problems, "--tensor", layout.tensor, r.model.shape.heads, "heads");
  divides(problems, "--pipeline", layout.pipeline * layout.chunks, r.model.layers, "layers (with --chunks)");
  divides(problems, "--context", layout.context, r.model.shape.sequence, "tokens of the sequence");
  divides(problems, "--expert", layout.expert * layout.expert_tensor,
          layout.data * layout.context * layout.tensor, "ranks of data * context * tensor");
  if (layout.pipeline > 1 && r.model.layers == 0)
    problems.add("--layers", "", "is needed to cut a pipeline", "give it");
  if (layout.zero > 0 && layout.data * layout.context == 1)
    problems.add("--zero", std::to_string(layout.zero), "shards over data ranks, and there is one",
                 "use --zero 0");
  if (layout.schedule == Schedule::interleaved && layout.micro_batches % layout.pipeline != 0)
    problems.add("--micro-batches", std::to_string(layout.micro_batches),
                 fmt::format("must be a multiple of the {} stages under interleaved", layout.pipeline),
                 "round it up");
}

Layout read_layout(Options& options, MemoryRequest& r) {
  Layout layout;
  layout.tensor = options.count_up_to("--tensor", kMostDegree).value_or(1);
  layout.pipeline = options.count_up_to("--pipeline", kMostDegree).value_or(1);
  layout.context = options.count_up_to("--context", kMostDegree).value_or(1);
  layout.zero = static_cast<int>(options.choice("--zero", kZero, 0));
  if (r.model.parameters.expert > 0) {
    layout.expert = options.count_up_to("--expert", kMostDegree).value_or(1);
    layout.expert_tensor = options.count_up_to("--expert-tensor", kMostDegree).value_or(1);
  }
  if (layout.pipeline > 1) {
    const size_t fallback =
        static_cast<size_t>(options.given("--chunks") ? Schedule::interleaved : Schedule::one_f_one_b);
    layout.schedule = static_cast<Schedule>(options.choice("--schedule", kSchedules, fallback));
    if (layout.schedule == Schedule::interleaved)
      layout.chunks = options.count_up_to("--chunks", kMostDegree).value_or(2);
    layout.micro_batches = options.count_up_to("--micro-batches", kMostInFlight).value_or(0);
  }
  layout.recompute = r.recompute;
  layout.sequence_parallel = r.sequence_parallel;
  complete_devices(options, r, layout);
  check_layout(r, layout, options.problems());
  return layout;
}

// Plain replication, the ZeRO stages, and all devices as one tensor or pipeline group where that divides.
std::vector<NamedLayout> strategies(const MemoryRequest& r) {
  Layout base;
  base.recompute = r.recompute;
  base.sequence_parallel = r.sequence_parallel;
  if (r.gpus == 1) return {{"one device", base}};
  std::vector<NamedLayout> list;
  for (int zero = 0; zero <= 3; ++zero) {
    Layout layout = base;
    layout.data = r.gpus;
    layout.zero = zero;
    list.push_back({zero == 0 ? "DDP" : fmt::format("ZeRO-{}", zero), layout});
  }
  if (r.model.shape.heads == 0 || r.model.shape.heads % r.gpus == 0) {
    Layout layout = base;
    layout.tensor = r.gpus;
    list.push_back({fmt::format("tensor {}", r.gpus), layout});
  }
  if (r.model.layers > 0 && r.model.layers % r.gpus == 0) {
    Layout layout = base;
    layout.pipeline = r.gpus;
    list.push_back({fmt::format("pipeline {}", r.gpus), layout});
  }
  return list;
}

std::string layout_name(const Layout& layout) {
  std::string name =
      fmt::format("data {} tensor {} pipeline {}", layout.data, layout.tensor, layout.pipeline);
  if (layout.context > 1) name += fmt::format(" context {}", layout.context);
  if (layout.expert * layout.expert_tensor > 1)
    name += fmt::format(" expert {} expert-tensor {}", layout.expert, layout.expert_tensor);
  return name + fmt::format(" ZeRO-{}", layout.zero);
}

// Activations, logits, cache and scores must be countable in 64 bits.
void check_magnitude(const MemoryRequest& r, Problems& problems) {
  const LayerShape& s = r.model.shape;
  const double tokens = static_cast<double>(s.sequence) * static_cast<double>(s.micro_batch);
  const double heads = static_cast<double>(s.heads), sequence = static_cast<double>(s.sequence);
  const double layer = tokens * (34.0 * static_cast<double>(s.hidden) + 5 * heads * sequence);
  const double in_flight = static_cast<double>(std::max<int64_t>(r.model.layers, 1)) * kMostInFlight;
  const double logits = 4 * tokens * static_cast<double>(s.hidden + r.model.vocab);
  const double batch = static_cast<double>(r.batch * r.kv_bytes);
  const double cache = batch * sequence * 2 * static_cast<double>(r.model.layers) *
                       static_cast<double>(r.named.kv_heads * r.named.head_dim);
  if (std::max({layer * in_flight, logits, cache, batch * heads * sequence * sequence}) > kMostBytes)
    problems.add("--sequence", std::to_string(s.sequence), "makes activations too large to count",
                 "correct the dimensions, the micro-batch or the batch");
}

void read_parts(Options& options, MemoryRequest& r) {
  r.explain = options.flag("--explain");
  if (options.flag("--suggest")) {
    r.suggestions = options.count("--top", 6);
    r.gpus_per_node = options.count("--gpus-per-node", 8);
    if (!r.device_bytes)
      options.problems().add("--memory", "", "is needed by --suggest",
                             "give it, or a --device whose memory is known");
    if (!r.has_shape())
      options.problems().add("--heads", "", "is needed by --suggest, with --layers, --hidden and --sequence",
                             "give them, or a --preset");
  }
  r.kv_cache = options.flag("--kv-cache");
  if (!r.kv_cache) return;
  r.batch = options.count("--batch", 1);
  r.kv_bytes = options.count("--kv-bytes", 2);
  if (!r.has_shape())
    options.problems().add("--kv-cache", "", "needs --layers, --hidden, --heads and --sequence",
                           "give them, or a --preset");
}

}  // namespace

MemoryRequest read_memory_request(Options& options) {
  MemoryRequest r;
  read_model_shape(options, r);
  read_device(options, r);
  read_bytes_per_parameter(options, r.bytes);
  r.reserve_bytes = options.bytes("--reserve").value_or(10 * GiB);
  r.recompute = static_cast<Recompute>(options.choice("--recompute", kRecompute, 0));
  r.sequence_parallel = !options.flag("--no-sequence-parallel");
  r.one_layout = std::any_of(std::begin(kLayoutOptions), std::end(kLayoutOptions),
                             [&](const char* name) { return options.given(name); });
  if (r.one_layout) {
    const Layout layout = read_layout(options, r);
    r.layouts = {{layout_name(layout), layout}};
  } else {
    r.gpus = options.count("--gpus", 1);
  }
  read_parts(options, r);
  check_magnitude(r, options.problems());
  options.finish();
  if (!r.one_layout) r.layouts = strategies(r);
  return r;
}

}  // namespace muster::estimate
