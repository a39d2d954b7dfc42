#include <optional>

#include "base/table.h"
#include "estimate/kinds/kind.h"
#include "estimate/kinds/model_options.h"
#include "estimate/kinds/numbers.h"
#include "estimate/throughput.h"
#include "spec/hardware/hardware.h"

namespace muster::estimate {
namespace {

constexpr const char* kPairs[] = {"causal", "full", "none"};
constexpr const char* kRecompute[] = {"none", "selective", "full"};
constexpr const char* kSay[] = {"attention causal (half the square)", "attention over the full square",
                                "6 P, no attention"};

struct Peak {
  double flops = 0;  // 0: unknown
  std::string source = "unknown";
};

Peak read_peak(Options& options) {
  if (const auto tflops = options.quantity("--peak-tflops"))
    return {*tflops * 1e12, plain(*tflops) + " TFLOP/s, as given"};
  const auto device = options.text("--device");
  if (!device) return {};
  const std::string dtype = options.text("--dtype").value_or("bfloat16");
  Peak peak;
  options.problems().gather([&] {
    const spec::Hardware hardware = spec::load_hardware(*device);
    const auto flops = hardware.peak(dtype);
    if (!flops) return void(peak.source = fmt::format("unknown: no {} peak of {}", dtype, hardware.name));
    peak = {*flops, fmt::format("{} TFLOP/s, dense {} of {} ({})", plain(*flops / 1e12), dtype, hardware.name,
                                hardware.source)};
  });
  return peak;
}

// A lookup multiplies nothing; positions, norms and biases are too few to tell apart in a plain count.
TokenFlops token_flops(const ModelRequest& model, AttentionPairs pairs) {
  const double matmul = static_cast<double>(model.parameters.dense + model.parameters.active_expert);
  const double table = static_cast<double>(model.parameters.embedding);
  const double head = model.parameters.head > 0 ? static_cast<double>(model.parameters.head) : table;
  return {six_flops(matmul), attention_flops(model.layers, model.attention_width(), model.sequence, pairs),
          six_flops(head)};
}

struct Rates {
  double tokens_per_second = 0;  // 0: not known
  std::optional<double> mfu, hfu;
};

Rates read_rates(Options& options, const TokenFlops& flops, double hardware, int64_t gpus, const Peak& peak) {
  Rates rates;
  const auto tokens = options.quantity("--tokens-per-second");
  const auto mfu = tokens ? std::nullopt : options.quantity("--mfu");
  if (!tokens && !mfu)
    options.problems().add("--tokens-per-second", "", "or --mfu is needed", "give one of the two");
  if (mfu && *mfu > 1)
    options.problems().add("--mfu", plain(*mfu), "is a share: from 0 to 1", "write 0.45 for 45 %");
  if (mfu && peak.flops == 0)
    options.problems().add("--peak-tflops", "", "is needed to turn an MFU into tokens",
                           "give it, or a --device that is known");
  rates.tokens_per_second = tokens ? *tokens : 0;
  if (flops.total() == 0 || peak.flops == 0) return rates;
  if (mfu) rates.tokens_per_second = tokens_per_second_at(*mfu, flops.total(), gpus, peak.flops);
  rates.mfu = utilisation_of(flops.total(), rates.tokens_per_second, gpus, peak.flops);
  rates.hfu = utilisation_of(hardware, rates.tokens_per_second, gpus, peak.flops);
  if (*rates.hfu > 1 + 1e-9)
    options.problems().add("--tokens-per-second", plain(rates.tokens_per_second),
                           fmt::format("would be {} % of the peak", percent(*rates.hfu)),
                           "check the rate, the devices, the peak and its dtype");
  return rates;
}

Table flops_table(const TokenFlops& flops, double hardware) {
  Table table({"GFLOP a token", "forward + backward"});
  table.add({"linear", decimal(flops.linear / 1e9, 2)});
  table.add({"attention", decimal(flops.attention / 1e9, 2)});
  table.add({"head", decimal(flops.head / 1e9, 2)});
  table.add({"model", decimal(flops.total() / 1e9, 2)});
  table.add({"hardware", decimal(hardware / 1e9, 2)});
  return table;
}

std::string or_unknown(const std::optional<double>& share) {
  return share ? percent(*share) + " %" : "unknown";
}

struct Request {
  ModelRequest model;
  AttentionPairs pairs = AttentionPairs::causal;
  Recompute recompute = Recompute::none;
  int64_t gpus = 1;
  Peak peak;
  TokenFlops flops;
  double hardware = 0;
  Rates rates;
  std::optional<double> tokens;
};

AttentionPairs read_pairs(Options& options, const ModelRequest& model) {
  const bool countable = model.layers > 0 && model.hidden > 0 && model.sequence > 0;
  const auto fallback = countable ? AttentionPairs::causal : AttentionPairs::none;
  const auto pairs =
      static_cast<AttentionPairs>(options.choice("--attention", kPairs, static_cast<size_t>(fallback)));
  if (pairs != AttentionPairs::none && !countable)
    options.problems().add("--attention", to_string(pairs), "needs --layers, --hidden and --sequence",
                           "give them, or a --preset");
  return pairs;
}

Request read(Options& options) {
  Request r;
  r.model = read_model(options, {"--preset", "--params", "--layers", "--hidden", "--heads", "--head-dim",
                                 "--ffn", "--vocab", "--sequence"});
  if (r.model.parameters.total() == 0 && !options.given("--preset"))
    options.problems().add("--preset", "", "or --params is needed", "say which model");
  r.pairs = read_pairs(options, r.model);
  r.recompute = static_cast<Recompute>(options.choice("--recompute", kRecompute, 0));
  r.gpus = options.count("--gpus", 1);
  r.peak = read_peak(options);
  r.flops = token_flops(r.model, r.pairs);
  r.hardware = hardware_flops(r.flops, r.recompute);
  r.rates = read_rates(options, r.flops, r.hardware, r.gpus, r.peak);
  r.tokens = options.quantity("--tokens");
  options.finish();
  return r;
}

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json json_of(const Request& r) {
  return {{"kind", "throughput"},
          {"model", r.model.name},
          {"parameters", r.model.parameters.total()},
          {"attention", to_string(r.pairs)},
          {"recompute", to_string(r.recompute)},
          {"gpus", r.gpus},
          {"flops_per_token",
           {{"linear", r.flops.linear},
            {"attention", r.flops.attention},
            {"head", r.flops.head},
            {"model", r.flops.total()},
            {"hardware", r.hardware}}},
          {"peak_flops", r.peak.flops > 0 ? Json(r.peak.flops) : Json()},
          {"peak_source", r.peak.source},
          {"tokens_per_second", r.rates.tokens_per_second},
          {"mfu", or_null(r.rates.mfu)},
          {"hfu", or_null(r.rates.hfu)}};
}

}  // namespace

Answer throughput_answer(Options& options) {
  const Request r = read(options);
  Answer answer;
  answer.json = json_of(r);
  answer.text = fmt::format(
      "{}: {}\n{}\n{} tokens/s on {} devices, peak {}\n"
      "MFU {} (model FLOPs, recomputation never), HFU {} (what runs, recompute {})\n",
      r.model.name, kSay[static_cast<size_t>(r.pairs)], flops_table(r.flops, r.hardware).text(),
      decimal(r.rates.tokens_per_second, 0), r.gpus, r.peak.source, or_unknown(r.rates.mfu),
      or_unknown(r.rates.hfu), to_string(r.recompute));
  if (r.tokens) {
    const double days = *r.tokens / r.rates.tokens_per_second / 86400;
    answer.json["days"] = days;
    answer.text += fmt::format("{} tokens take {} days\n", format_count(*r.tokens), decimal(days, 1));
  }
  return answer;
}

}  // namespace muster::estimate
