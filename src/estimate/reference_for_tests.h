// The reference tables, for tests alone.
#pragma once
#include <charconv>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file.h"
#include "estimate/parameters.h"

namespace muster::estimate {

struct CsvRow : std::map<std::string, std::string> {
  using std::map<std::string, std::string>::map;
  int64_t integer(const std::string& column) {
    const std::string& text = at(column);
    int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
};

// Fields of one line: commas between, quotes around a field that holds commas, "" for a quote.
inline std::vector<std::string> csv_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += line[++i];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted)
      fields.emplace_back();
    else
      fields.back() += line[i];
  }
  return fields;
}

// Throws where the file is missing: the reference folder must stand beside the checkout.
inline std::vector<CsvRow> read_csv(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<CsvRow> rows;
  std::vector<std::string> header;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    at = end + 1;
    const auto fields = csv_fields(line);
    if (header.empty()) {
      header = fields;
      continue;
    }
    if (fields.size() != header.size()) throw std::runtime_error(path + ": a row of another width: " + line);
    CsvRow& row = rows.emplace_back();
    for (size_t column = 0; column < header.size(); ++column) row[header[column]] = fields[column];
  }
  return rows;
}

// A file of the reference folder beside the checkout.
inline std::string reference(const std::string& name) {
  return std::string(SOURCE_ROOT) + "/../shared/reference/" + name;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A row of model_configs.csv.
inline Dimensions dimensions_in(CsvRow& row) {
  Dimensions d;
  d.layers = row.integer("layers");
  d.hidden = row.integer("hidden");
  d.heads = row.integer("heads");
  d.kv_heads = row.integer("kv_heads");
  d.head_dim = row.integer("head_dim");
  d.ffn = row.integer("ffn_hidden");
  d.vocab = row.integer("vocab");
  d.learned_positions = row["pos_embedding"] == "learned" ? row.integer("max_position") : 0;
  d.tied = row["tied_embeddings"] == "True";
  d.gated = has(row["mlp_type"], "swiglu");
  d.qkv_bias = row["qkv_bias"] == "True";
  d.attention_output_bias = row["attn_out_bias"] == "True";
  d.mlp_bias = row["mlp_bias"] == "True";
  d.norm_bias = has(row["norm_type"], "LayerNorm");
  d.norms_counted = !has(row["compute_method"], "norms not counted");
  d.qk_norm = !row["qk_norm"].empty();
  d.embedding_norm = has(row["norm_type"], "embedding LayerNorm");
  d.attention_sinks = has(row["notes"], "attention sinks (one per head)");
  d.experts = {row.integer("n_experts"),          row.integer("top_k"),
               row.integer("shared_experts"),     row.integer("moe_ffn_hidden"),
               row.integer("first_dense_layers"), has(row["notes"], "router has a bias")};
  d.latent = {row.integer("mla_q_lora_rank"), row.integer("mla_kv_lora_rank"),
              row.integer("qk_nope_head_dim"), row.integer("qk_rope_head_dim"), row.integer("v_head_dim")};
  return d;
}

}  // namespace muster::estimate
