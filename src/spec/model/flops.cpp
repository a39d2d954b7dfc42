#include "spec/model/parameter_table.h"

namespace muster::spec {

FlopsPerToken forward_flops_per_token(const ModelSpec& model, int64_t sequence_length) {
  FlopsPerToken flops;
  const ParameterTable table(model);
  for (const ParameterRow& row : table.rows()) {
    const bool is_lookup = row.role == Role::token_embedding || row.role == Role::position_embedding;
    if (row.is_matrix && !is_lookup && row.role != Role::head)
      flops.linear += 2.0 * static_cast<double>(row.elements());
  }
  // A token at position i meets i+1 keys; each pair costs head_dim multiply-adds for its score and as many
  // for its value.
  const double pairs = (static_cast<double>(sequence_length) + 1) / 2;
  flops.attention = 4.0 * pairs * static_cast<double>(model.q_size() * model.num_hidden_layers);
  flops.head = 2.0 * static_cast<double>(model.vocab_size * model.hidden_size);
  return flops;
}

}  // namespace muster::spec
