// The parameter table: one row per logical parameter. Initialisation, local shapes, gradient reduction, the
// global norm, import and export, verification and the formulas read it; nobody keeps another list or flag.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "spec/mesh/placement.h"
#include "spec/model/model.h"

namespace muster::spec {

enum class Role {
  token_embedding,
  position_embedding,
  norm_weight,
  norm_bias,
  query,
  key,
  value,
  query_key_value,
  attention_output,
  query_bias,
  key_bias,
  value_bias,
  query_key_value_bias,
  attention_output_bias,
  gate,
  up,
  down,
  up_bias,
  down_bias,
  head
};

// Initial values: normal(0, scale), or the constant `scale`.
struct Initializer {
  enum class Kind { normal, constant } kind = Kind::normal;
  double scale = 0.02;
};

struct ParameterRow {
  std::string name;            // Hugging Face's
  std::vector<int64_t> shape;  // global, as Hugging Face stores it
  Role role = Role::norm_weight;
  int64_t unit = 0;     // 0 embeddings, 1..L blocks, L+1 final norm and head
  Placement placement;  // how each mesh axis holds it
  Initializer initializer;
  bool is_matrix = false;      // weight_decay_on = "matrices" decays these
  bool stored_in_out = false;  // [in, out] (gpt2's Conv1D) and not [out, in]
  int64_t elements() const;
  // A linear map within a block: what Muon updates (Jordan et al. 2024). Embeddings and the head are tables
  // of vectors, one an id or a position.
  bool is_linear() const;
};

class ParameterTable {
 public:
  explicit ParameterTable(const ModelSpec& model);

  // In forward order; the rows of one unit are adjacent, and q,k,v and gate,up stand in that order, so that
  // each group is one matrix in a flat buffer.
  const std::vector<ParameterRow>& rows() const { return rows_; }
  const ParameterRow& row(const std::string& name) const;
  bool has(const std::string& name) const;
  int64_t units() const { return units_; }
  int64_t elements() const;

 private:
  const ParameterRow* find(const std::string& name) const;

  std::vector<ParameterRow> rows_;
  int64_t units_ = 0;
};

}  // namespace muster::spec
