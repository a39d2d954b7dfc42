#include "estimate/activations.h"

#include <cmath>

namespace muster::estimate {

const char* to_string(Recompute recompute) {
  constexpr const char* names[] = {"none", "selective", "full"};
  return names[static_cast<int>(recompute)];
}

double whole_factor(const LayerShape& shape) {
  return shape.is_llama() ? 8 : 10;
}

double divided_factor(const LayerShape& shape) {
  if (!shape.is_llama()) return 24;
  const int64_t elements = 4 * shape.query_width + 4 * shape.kv_width + 8 * shape.gated_ffn;
  return static_cast<double>(elements) / static_cast<double>(shape.hidden);
}

double score_factor(const LayerShape& shape) {
  return (shape.is_llama() ? 4.0 : 5.0) * static_cast<double>(shape.heads) *
         static_cast<double>(shape.sequence) / static_cast<double>(shape.hidden);
}

double activation_factor(const LayerShape& shape, int64_t tensor, bool sequence_parallel,
                         Recompute recompute) {
  const double t = static_cast<double>(tensor);
  const double whole = sequence_parallel ? 1 / t : 1;
  if (recompute == Recompute::full) return 2 * whole;
  const double scores = recompute == Recompute::none ? score_factor(shape) / t : 0;
  return whole_factor(shape) * whole + divided_factor(shape) / t + scores;
}

int64_t activation_bytes_per_layer(const LayerShape& shape, int64_t tensor, bool sequence_parallel,
                                   Recompute recompute) {
  return std::llround(static_cast<double>(shape.tokens_times_hidden()) *
                      activation_factor(shape, tensor, sequence_parallel, recompute));
}

int64_t head_bytes(const LayerShape& shape, int64_t vocab, int64_t tensor) {
  const int64_t tokens = shape.sequence * shape.micro_batch;
  return 4 * tokens * (shape.hidden + vocab) / tensor;
}

double recompute_flops_share(const LayerShape& shape, int64_t layers, int64_t vocab, Recompute recompute) {
  if (recompute == Recompute::none) return 0;
  if (recompute == Recompute::full) return 1.0 / 3;
  const double h = static_cast<double>(shape.hidden);
  const double attention = static_cast<double>(shape.sequence) / (6 * h);
  const double head = static_cast<double>(vocab) / (12 * h * static_cast<double>(layers));
  return attention / (1 + attention + head);
}

int64_t score_matrix_bytes(int64_t batch, int64_t heads, int64_t sequence, int64_t bytes) {
  return batch * heads * sequence * sequence * bytes;
}

}  // namespace muster::estimate
