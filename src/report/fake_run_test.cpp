#include "report/fake_run.h"

#include <cmath>

#include "base/random.h"
#include "telemetry/metrics.h"
#include "telemetry/run_summary.h"
#include "telemetry/trace.h"

namespace muster::report::testing {
namespace {

using telemetry::Category;
using telemetry::StepRecord;

constexpr int64_t kTokens = 4 * 512, kHidden = 512, kFfn = 1376, kVocabulary = 8192;
constexpr int64_t kLayerParameters = 4 * (kHidden * kHidden * 3 + kHidden * kFfn * 3);
constexpr int64_t kEmbedding = 4 * kVocabulary * kHidden;

// Plays a step operator by operator.
class Player {
 public:
  Player(StepRecord& record, bool timed) : record_(record), timed_(timed) {}

  void op(const char* name, const std::string& where, const char* phase, double flops, int64_t bytes) {
    const double seconds = flops / 60e9 + static_cast<double>(bytes) / 12e9 + 8e-6;
    if (timed_ && flops > 0) {
      change(1 << 20, Category::scratch);
      change(-(1 << 20), Category::scratch);
    }
    record_.ops.push_back(
        {name, where, phase, flops, bytes, timed_ ? now_ : 0, timed_ ? seconds : 0, record_.memory.size()});
    now_ += seconds + 2e-6;
  }
  void change(int64_t bytes, Category category) { record_.memory.push_back({bytes, category}); }

  void matmul(const std::string& where, const char* phase, int64_t m, int64_t k, int64_t n) {
    op("matmul", where, phase, 2. * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n),
       4 * (m * k + k * n + m * n));
  }

  void forward(int layer) {
    const std::string where = "layer " + std::to_string(layer);
    op("rms_norm", where + " attention", "forward", 0, 8 * kTokens * kHidden);
    change(4 * kTokens * kHidden, Category::activations);
    matmul(where + " attention", "forward", kTokens, kHidden, 2 * kHidden);
    change(8 * kTokens * kHidden, Category::activations);
    op("attention", where + " attention", "forward", 2. * kTokens * 512 * kHidden, 16 * kTokens * kHidden);
    change(4 * kTokens * kHidden, Category::activations);
    matmul(where + " attention", "forward", kTokens, kHidden, kHidden);
    change(4 * kTokens * kHidden, Category::activations);
    op("rms_norm", where + " ffn", "forward", 0, 8 * kTokens * kHidden);
    matmul(where + " ffn", "forward", kTokens, kHidden, 2 * kFfn);
    change(8 * kTokens * kFfn, Category::activations);
    op("swiglu", where + " ffn", "forward", 0, 12 * kTokens * kFfn);
    change(4 * kTokens * kFfn, Category::temporary);
    matmul(where + " ffn", "forward", kTokens, kFfn, kHidden);
    change(-4 * kTokens * kFfn, Category::temporary);
  }

  void backward(int layer) {
    const std::string where = "layer " + std::to_string(layer);
    matmul(where + " ffn", "backward", kTokens, kHidden, kFfn);
    change(8 * kTokens * kFfn, Category::temporary);
    op("swiglu_backward", where + " ffn", "backward", 0, 20 * kTokens * kFfn);
    matmul(where + " ffn", "backward", kTokens, 2 * kFfn, kHidden);
    matmul(where + " ffn", "backward", kHidden, kTokens, 2 * kFfn);
    change(-8 * kTokens * kFfn, Category::temporary);
    change(-8 * kTokens * kFfn, Category::activations);
    op("attention_backward", where + " attention", "backward", 5. * kTokens * 512 * kHidden,
       32 * kTokens * kHidden);
    change(-8 * kTokens * kHidden, Category::activations);
    matmul(where + " attention", "backward", kTokens, kHidden, 3 * kHidden);
    matmul(where + " attention", "backward", kHidden, kTokens, 3 * kHidden);
    change(-12 * kTokens * kHidden, Category::activations);
  }

  void loss() {
    for (int chunk = 0; chunk < 4; ++chunk) {
      matmul("head", "forward", kTokens / 4, kHidden, kVocabulary);
      change(kTokens * kVocabulary, Category::temporary);
      op("cross_entropy", "head", "forward", 0, 2 * kTokens * kVocabulary);
      matmul("head", "backward", kTokens / 4, kVocabulary, kHidden);
      change(-kTokens * kVocabulary, Category::temporary);
    }
  }

  void reduce(int64_t bytes) {
    const double took = static_cast<double>(bytes) / 1.5e9 + 1e-4;
    const double issued = std::max(now_, link_free_ - took / 2);
    record_.messages.push_back({"data", "all_reduce", bytes, 2, record_.messages.size(), record_.ops.size(),
                                record_.ops.size(), timed_ ? issued : 0, timed_ ? issued + took : 0,
                                timed_ ? issued + took : 0, 0});
    change(bytes, Category::communication);
    change(-bytes, Category::communication);
    link_free_ = issued + took;
  }

  void update(int layers) {
    if (timed_ && link_free_ > now_) {
      record_.messages.back().needed_seconds = now_;
      record_.messages.back().exposed_seconds = link_free_ - now_;
      record_.spans.push_back({"wait for gradients", "host", now_, link_free_ - now_});
      now_ = link_free_;
    }
    op("global_norm", "update", "update", 0, 4 * kLayerParameters);
    reduce(8);
    for (int layer = 0; layer < layers; ++layer)
      op("adamw", "layer " + std::to_string(layer), "update", 0, 7 * kLayerParameters);
  }

  double now() const { return now_; }
  void span(const char* name, double from) {
    if (timed_) record_.spans.push_back({name, "host", from, now_ - from});
  }

 private:
  StepRecord& record_;
  bool timed_;
  double now_ = 1000, link_free_ = 0;
};

}  // namespace

StepRecord fake_record(int layers, int micro_batches, bool timed) {
  StepRecord record;
  const int64_t parameters = layers * kLayerParameters + kEmbedding;
  record.live_at_start[static_cast<int>(Category::parameters)] = parameters;
  record.live_at_start[static_cast<int>(Category::gradients)] = parameters;
  record.live_at_start[static_cast<int>(Category::optimizer)] = 2 * parameters;
  record.live_at_start[static_cast<int>(Category::input)] = 8 * kTokens;
  Player player(record, timed);
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    const double started = player.now();
    for (int layer = 0; layer < layers; ++layer) player.forward(layer);
    player.span("forward", started);
    player.loss();
    const double turned = player.now();
    for (int layer = layers; layer-- > 0;) {
      player.backward(layer);
      if (micro_batch == micro_batches - 1 && layer % 2 == 0) player.reduce(2 * kLayerParameters);
    }
    player.span("backward", turned);
  }
  const double updating = player.now();
  player.update(layers);
  player.span("update", updating);
  return record;
}

namespace {

double noise(int step, const char* of) {
  const PhiloxBlock block = philox(random_key(1, of), static_cast<uint64_t>(step));
  return to_unit_float(block[0]) + to_unit_float(block[1]) - 1;
}

telemetry::StepMetrics fake_step(int step, int steps) {
  telemetry::StepMetrics metrics;
  metrics.step = step;
  metrics.skipped = step == steps / 3;
  metrics.loss = 1.35 + 4.2 * std::pow(step, -0.42) + 0.06 * noise(step, "loss");
  metrics.grad_norm =
      metrics.skipped ? INFINITY : 0.4 + 9 / (1 + step / 12.0) * (1 + 0.3 * noise(step, "norm"));
  const double warm = std::min(1.0, step / 40.0), done = static_cast<double>(step) / steps;
  metrics.learning_rate = 3e-4 * warm * (0.1 + 0.9 * 0.5 * (1 + std::cos(3.14159265 * done)));
  metrics.tokens = 8192, metrics.tokens_seen = 8192 * step;
  metrics.step_seconds =
      0.61 + 0.02 * noise(step, "time") + (step == 1 ? 0.5 : 0) + (step % 97 == 0 ? 0.3 : 0);
  metrics.tokens_per_second = static_cast<double>(metrics.tokens) / metrics.step_seconds;
  metrics.mfu = 0.53 + 0.01 * noise(step, "mfu"), metrics.hfu = metrics.mfu;
  metrics.data_wait_seconds = 0.002 + 0.001 * std::abs(noise(step, "data"));
  metrics.exposed_communication_seconds = 0.024 + 0.01 * std::abs(noise(step, "wait"));
  if (step % 50 == 0) metrics.validation_loss = metrics.loss + 0.05;
  return metrics;
}

telemetry::RunSummary fake_summary(const StepRecord& measured, const StepRecord& rehearsed, int steps) {
  telemetry::RunSummary summary;
  summary.model_name = "bible-11m", summary.family = "llama", summary.parameters = 11'010'560;
  summary.model = {{"vocab_size", 8192},       {"hidden_size", 512},         {"num_hidden_layers", 6},
                   {"num_attention_heads", 8}, {"num_key_value_heads", 4},   {"intermediate_size", 1376},
                   {"rope_theta", 10000.0},    {"tie_word_embeddings", true}};
  summary.layout = "data 2", summary.world_size = 2, summary.device = "cpu", summary.dtype = "float32";
  summary.threads = 1, summary.host_cores = 2, summary.muster_version = "0.1",
  summary.torch_version = "2.15.0";
  summary.sequence_length = 512, summary.global_batch_size = 16, summary.micro_batch_size = 4;
  summary.steps = steps, summary.steps_planned = steps, summary.skipped_steps = 1;
  summary.first_loss = 5.55, summary.last_loss = 1.72, summary.tokens = 8192 * steps;
  summary.wall_seconds = 0.62 * steps + 9, summary.tokens_per_second = 13371,
  summary.exit_reason = "finished";
  summary.mfu_convention =
      "MFU: model FLOPs (causal attention, no recomputation) over the dense float32 peak of 2 x 83 GFLOP/s "
      "(measured by probe)";
  summary.mfu = 0.531, summary.hfu = 0.531, summary.peak_flops = 83e9,
  summary.peak_source = "measured by probe";
  summary.lost_seconds = {1.4, 0.0025 * steps, 0.03 * steps, 6.1, 1.2};
  summary.rehearsed_memory = memory_figures(rehearsed), summary.measured_memory = memory_figures(measured);
  summary.rehearsed_messages = rehearsed.message_totals(),
  summary.measured_messages = measured.message_totals();
  return summary;
}

}  // namespace

void write_fake_run(const fs::path& folder, int steps) {
  fs::create_directories(folder / "trace");
  const StepRecord measured = fake_record(6, 2, true), rehearsed = fake_record(6, 2, false);
  const auto sink = telemetry::make_jsonl_sink(folder / "metrics.jsonl");
  for (int step = 1; step <= steps; ++step) sink->write(fake_step(step, steps));
  write_text(folder / "summary.json", to_json(fake_summary(measured, rehearsed, steps)).dump());
  write_text(folder / "trace/record.measured.json", to_json(measured).dump());
  write_text(folder / "trace/record.rehearsed.json", to_json(rehearsed).dump());
  write_text(folder / "trace/rank0.json", telemetry::chrome_trace({&measured}));
  write_text(folder / "job.toml",
             "[model]\npreset = \"bible-11m\"   # file job.toml:2\n\n[training]\nsteps = 2000\n");
}

}  // namespace muster::report::testing
