#include "spec/model/parameter_table.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace muster::spec {
namespace {

constexpr int kRows = 0, kColumns = 1;  // dims of a matrix

Placement split_over_tensor(int dim, int blocks = 1) {
  Placement placement;
  placement[Axis::tensor] = AxisPlacement::shard(dim, blocks);
  return placement;
}

// Ids that no rank needs may pad the last parts.
Placement vocabulary() {
  Placement placement = split_over_tensor(kRows);
  placement[Axis::tensor].pads = true;
  return placement;
}

// Whole key-value heads, which neighbours share where there are more ranks than heads.
Placement key_value_heads(const ModelSpec& model) {
  Placement placement = split_over_tensor(kRows);
  placement[Axis::tensor].pieces = model.num_key_value_heads;
  return placement;
}

// Collects the rows of one unit under a common name prefix.
class UnitBuilder {
 public:
  UnitBuilder(std::vector<ParameterRow>& rows, int64_t unit, std::string prefix)
      : rows_(rows), unit_(unit), prefix_(std::move(prefix)) {}

  // out x in, kept as [out, in]; `split` is the dim sharded over the tensor axis.
  ParameterRow& matrix(const std::string& name, Role role, int64_t out, int64_t in, int split, double std) {
    ParameterRow& row = add(name, role, {out, in}, split_over_tensor(split));
    row.is_matrix = true;
    row.initializer = {Initializer::Kind::normal, std};
    return row;
  }
  // The same, kept as [in, out]: gpt2's Conv1D.
  ParameterRow& transposed(const std::string& name, Role role, int64_t in, int64_t out, int split,
                           double std) {
    ParameterRow& row = matrix(name, role, in, out, split, std);
    row.stored_in_out = true;
    return row;
  }
  void norm(const std::string& name, int64_t size, bool with_bias) {
    vector(name + ".weight", Role::norm_weight, size, {}, 1);
    if (with_bias) vector(name + ".bias", Role::norm_bias, size, {}, 0);
  }
  void vector(const std::string& name, Role role, int64_t size, Placement placement, double value) {
    add(name, role, {size}, placement).initializer = {Initializer::Kind::constant, value};
  }

 private:
  ParameterRow& add(const std::string& name, Role role, std::vector<int64_t> shape, Placement placement) {
    ParameterRow row;
    row.name = prefix_ + name;
    row.shape = std::move(shape);
    row.role = role;
    row.unit = unit_;
    row.placement = placement;
    return rows_.emplace_back(std::move(row));
  }

  std::vector<ParameterRow>& rows_;
  int64_t unit_;
  std::string prefix_;
};

void add_llama(const ModelSpec& m, std::vector<ParameterRow>& rows) {
  const double std = m.initializer_range;
  UnitBuilder(rows, 0, "model.")
      .matrix("embed_tokens.weight", Role::token_embedding, m.vocab_size, m.hidden_size, kRows, std)
      .placement = vocabulary();
  for (int64_t layer = 0; layer < m.num_hidden_layers; ++layer) {
    UnitBuilder unit(rows, layer + 1, fmt::format("model.layers.{}.", layer));
    unit.norm("input_layernorm", m.hidden_size, false);
    unit.matrix("self_attn.q_proj.weight", Role::query, m.q_size(), m.hidden_size, kRows, std);
    unit.matrix("self_attn.k_proj.weight", Role::key, m.kv_size(), m.hidden_size, kRows, std).placement =
        key_value_heads(m);
    unit.matrix("self_attn.v_proj.weight", Role::value, m.kv_size(), m.hidden_size, kRows, std).placement =
        key_value_heads(m);
    if (m.attention_bias) {
      unit.vector("self_attn.q_proj.bias", Role::query_bias, m.q_size(), split_over_tensor(0), 0);
      unit.vector("self_attn.k_proj.bias", Role::key_bias, m.kv_size(), key_value_heads(m), 0);
      unit.vector("self_attn.v_proj.bias", Role::value_bias, m.kv_size(), key_value_heads(m), 0);
    }
    unit.matrix("self_attn.o_proj.weight", Role::attention_output, m.hidden_size, m.q_size(), kColumns, std);
    unit.norm("post_attention_layernorm", m.hidden_size, false);
    unit.matrix("mlp.gate_proj.weight", Role::gate, m.intermediate_size, m.hidden_size, kRows, std);
    unit.matrix("mlp.up_proj.weight", Role::up, m.intermediate_size, m.hidden_size, kRows, std);
    unit.matrix("mlp.down_proj.weight", Role::down, m.hidden_size, m.intermediate_size, kColumns, std);
  }
  UnitBuilder last(rows, m.num_hidden_layers + 1, "");
  last.norm("model.norm", m.hidden_size, false);
  if (!m.tie_word_embeddings)
    last.matrix("lm_head.weight", Role::head, m.vocab_size, m.hidden_size, kRows, std).placement =
        vocabulary();
}

void add_gpt2(const ModelSpec& m, std::vector<ParameterRow>& rows) {
  const double std = m.initializer_range;
  // Residual projections start smaller by the root of their number (GPT-2 report, section 2.3).
  const double residual_std = std / std::sqrt(2.0 * static_cast<double>(m.num_hidden_layers));
  UnitBuilder first(rows, 0, "transformer.");
  first.matrix("wte.weight", Role::token_embedding, m.vocab_size, m.hidden_size, kRows, std).placement =
      vocabulary();
  first.matrix("wpe.weight", Role::position_embedding, m.max_position_embeddings, m.hidden_size, kRows, std)
      .placement = Placement{};
  for (int64_t layer = 0; layer < m.num_hidden_layers; ++layer) {
    UnitBuilder unit(rows, layer + 1, fmt::format("transformer.h.{}.", layer));
    unit.norm("ln_1", m.hidden_size, true);
    constexpr int kQueryKeyValue = 3;  // side by side in one matrix, each split by heads
    unit.transposed("attn.c_attn.weight", Role::query_key_value, m.hidden_size, 3 * m.hidden_size, kColumns,
                    std)
        .placement = split_over_tensor(kColumns, kQueryKeyValue);
    unit.vector("attn.c_attn.bias", Role::query_key_value_bias, 3 * m.hidden_size,
                split_over_tensor(0, kQueryKeyValue), 0);
    unit.transposed("attn.c_proj.weight", Role::attention_output, m.hidden_size, m.hidden_size, kRows,
                    residual_std);
    unit.vector("attn.c_proj.bias", Role::attention_output_bias, m.hidden_size, {}, 0);
    unit.norm("ln_2", m.hidden_size, true);
    unit.transposed("mlp.c_fc.weight", Role::up, m.hidden_size, m.intermediate_size, kColumns, std);
    unit.vector("mlp.c_fc.bias", Role::up_bias, m.intermediate_size, split_over_tensor(0), 0);
    unit.transposed("mlp.c_proj.weight", Role::down, m.intermediate_size, m.hidden_size, kRows, residual_std);
    unit.vector("mlp.c_proj.bias", Role::down_bias, m.hidden_size, {}, 0);
  }
  UnitBuilder(rows, m.num_hidden_layers + 1, "transformer.").norm("ln_f", m.hidden_size, true);
}

}  // namespace

int64_t ParameterRow::elements() const {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;
  return product;
}

bool ParameterRow::is_linear() const {
  return is_matrix && role != Role::token_embedding && role != Role::position_embedding && role != Role::head;
}

ParameterTable::ParameterTable(const ModelSpec& model) : units_(model.num_hidden_layers + 2) {
  if (model.family == Family::llama) add_llama(model, rows_);
  if (model.family == Family::gpt2) add_gpt2(model, rows_);
}

const ParameterRow* ParameterTable::find(const std::string& name) const {
  const auto found = std::ranges::find(rows_, name, &ParameterRow::name);
  return found == rows_.end() ? nullptr : &*found;
}

const ParameterRow& ParameterTable::row(const std::string& name) const {
  const ParameterRow* row = find(name);
  MUSTER_CHECK(row, "no parameter named {}", name);
  return *row;
}

bool ParameterTable::has(const std::string& name) const {
  return find(name) != nullptr;
}

int64_t ParameterTable::elements() const {
  int64_t sum = 0;
  for (const ParameterRow& row : rows_) sum += row.elements();
  return sum;
}

}  // namespace muster::spec
