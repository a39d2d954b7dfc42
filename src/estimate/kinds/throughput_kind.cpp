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

}  // namespace

Answer throughput_answer(Options& options) {
  const ModelRequest model = read_model(options, {"--preset", "--params", "--layers", "--hidden", "--heads",
                                                  "--head-dim", "--ffn", "--vocab", "--sequence"});
  const bool can_count_pairs = model.layers > 0 && model.hidden > 0 && model.sequence > 0;
  const auto pairs = static_cast<AttentionPairs>(
      options.choice("--attention", kPairs,
                     static_cast<size_t>(can_count_pairs ? AttentionPairs::causal : AttentionPairs::none)));
  if (pairs != AttentionPairs::none && !can_count_pairs)
    options.problems().add("--attention", to_string(pairs), "needs --layers, --hidden and --sequence",
                           "give them, or a --preset");
  if (model.parameters.total() == 0 && !options.given("--preset"))
    options.problems().add("--preset", "", "or --params is needed", "say which model");
  const auto recompute = static_cast<Recompute>(options.choice("--recompute", kRecompute, 0));
  const int64_t gpus = options.count("--gpus", 1);
  const Peak peak = read_peak(options);
  const TokenFlops flops = token_flops(model, pairs);
  const double hardware = hardware_flops(flops, recompute);
  const Rates rates = read_rates(options, flops, hardware, gpus, peak);
  const auto tokens = options.quantity("--tokens");
  options.finish();

  Answer answer;
  answer.json = {{"kind", "throughput"},
                 {"model", model.name},
                 {"parameters", model.parameters.total()},
                 {"attention", to_string(pairs)},
                 {"recompute", to_string(recompute)},
                 {"gpus", gpus},
                 {"flops_per_token",
                  {{"linear", flops.linear},
                   {"attention", flops.attention},
                   {"head", flops.head},
                   {"model", flops.total()},
                   {"hardware", hardware}}},
                 {"peak_flops", peak.flops > 0 ? Json(peak.flops) : Json()},
                 {"peak_source", peak.source},
                 {"tokens_per_second", rates.tokens_per_second},
                 {"mfu", rates.mfu ? Json(*rates.mfu) : Json()},
                 {"hfu", rates.hfu ? Json(*rates.hfu) : Json()}};
  answer.text = fmt::format("{}: {}\n", model.name, kSay[static_cast<size_t>(pairs)]) +
                flops_table(flops, hardware).text() +
                fmt::format(
                    "\n{} tokens/s on {} devices, peak {}\nMFU {} (model FLOPs, recomputation never), HFU {} "
                    "(with {} recomputation)\n",
                    decimal(rates.tokens_per_second, 0), gpus, peak.source, or_unknown(rates.mfu),
                    or_unknown(rates.hfu), to_string(recompute));
  if (tokens) {
    const double days = *tokens / rates.tokens_per_second / 86400;
    answer.json["days"] = days;
    answer.text += fmt::format("{} tokens take {} days\n", format_count(*tokens), decimal(days, 1));
  }
  return answer;
}

}  // namespace muster::estimate
