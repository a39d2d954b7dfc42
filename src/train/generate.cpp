#include "train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace muster::train {
namespace {

int32_t likeliest(const std::vector<double>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Ids by falling logit, cut to the `top_k` likeliest.
std::vector<int32_t> ranked(const std::vector<double>& logits, int64_t top_k) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (top_k > 0 && top_k < static_cast<int64_t>(ids.size())) ids.resize(static_cast<size_t>(top_k));
  return ids;
}

}  // namespace

int32_t sample_token(const at::Tensor& logits_1V, const SamplingOptions& options, uint64_t draw) {
  const at::Tensor host = logits_1V.to(at::kCPU, at::kDouble).contiguous();
  const std::vector<double> logits(host.data_ptr<double>(), host.data_ptr<double>() + host.numel());
  if (options.temperature <= 0) return likeliest(logits);
  const std::vector<int32_t> ids = ranked(logits, options.top_k);
  const double most = logits[static_cast<size_t>(ids[0])];
  std::vector<double> weights;
  double total = 0;
  for (int32_t id : ids)
    total += weights.emplace_back(std::exp((logits[static_cast<size_t>(id)] - most) / options.temperature));
  double kept = 0;
  size_t count = 0;
  while (count < weights.size() && kept < options.top_p * total) kept += weights[count++];
  const PhiloxBlock block = philox(random_key(options.seed, "sample"), draw);
  double left = to_unit_double(block[0], block[1]) * kept;
  for (size_t at = 0; at < count; ++at)
    if ((left -= weights[at]) < 0) return ids[at];
  return ids[count - 1];
}

void generate(nn::Executor& run, nn::Transformer& model, std::vector<int32_t> ids, int64_t context,
              const SamplingOptions& options, const std::function<bool(int32_t)>& token) {
  for (int64_t draw = 0; draw < options.tokens; ++draw) {
    const auto length = std::min<int64_t>(context, static_cast<int64_t>(ids.size()));
    const at::Tensor host =
        at::from_blob(ids.data() + ids.size() - static_cast<size_t>(length), {length}, at::kInt);
    const at::Tensor logits = model.next_token_logits(run, host.clone().to(run.device()));
    ids.push_back(sample_token(logits, options, static_cast<uint64_t>(draw)));
    if (!token(ids.back())) return;
  }
}

}  // namespace muster::train
