#include "checkpoint/convert.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "checkpoint/layouts.h"
#include "checkpoint/weight_files.h"

namespace muster::checkpoint {
namespace {

using spec::ParameterRow;
using spec::Role;

bool is_query(Role role) {
  return role == Role::query || role == Role::query_bias;
}
bool is_key(Role role) {
  return role == Role::key || role == Role::key_bias;
}
bool is_value(Role role) {
  return role == Role::value || role == Role::value_bias;
}

// A tensor of a file, made of one row of the table, or of a layer's query, key and value rows.
struct Part {
  std::string name;
  std::vector<const ParameterRow*> rows;

  std::vector<int64_t> shape() const {
    std::vector<int64_t> shape = rows[0]->shape;
    for (size_t i = 1; i < rows.size(); ++i) shape[0] += rows[i]->shape[0];
    return shape;
  }
};

std::string fused_name(std::string query_name) {
  return query_name.replace(query_name.rfind("q_proj"), 6, "qkv_proj");
}

// The table's rows stand in the order q k v, weights before biases.
std::vector<Part> parts_of(const spec::ParameterTable& table, QkvLayout layout) {
  std::vector<Part> parts;
  for (const ParameterRow& row : table.rows()) {
    const bool joins = layout == QkvLayout::fused && (is_key(row.role) || is_value(row.role));
    if (!joins)
      parts.push_back(
          {layout == QkvLayout::fused && is_query(row.role) ? fused_name(row.name) : row.name, {}});
    parts.back().rows.push_back(&row);
  }
  return parts;
}

// The rows of a table out of files whose layouts differ from it.
class Source {
 public:
  Source(const fs::path& path, const spec::ModelSpec& model, const spec::ParameterTable& table,
         const ConvertOptions& options)
      : weights_(open_weights(path)), model_(model), options_(options) {
    const std::vector<Part> parts = parts_of(table, options.source_qkv);
    std::vector<ExpectedTensor> expected;
    for (const Part& part : parts) expected.push_back({part.name, part.shape()});
    const WeightMatch match = match_weights(*weights_, expected);
    check_tied_head(*weights_, match);
    for (size_t i = 0; i < parts.size(); ++i)
      for (const ParameterRow* row : parts[i].rows) found_.emplace(row, match.found[i]);
  }

  at::ScalarType dtype(const ParameterRow& row) const { return to_scalar_type(found_.at(&row)->dtype); }

  // As Hugging Face's model has it.
  at::Tensor read(const ParameterRow& row) const {
    at::Tensor tensor = read_stored(row);
    const bool turns = is_query(row.role) || is_key(row.role);
    if (options_.source_rotary == RotaryLayout::pairwise && turns)
      tensor = pairwise_to_half_split(tensor, model_.head_dim);
    return tensor;
  }

 private:
  at::Tensor read_stored(const ParameterRow& row) const {
    const StoredTensor& stored = *found_.at(&row);
    const at::Tensor tensor = at::empty(stored.shape, to_scalar_type(stored.dtype));
    weights_->read(stored, tensor);
    const bool is_fused = options_.source_qkv == QkvLayout::fused &&
                          (is_query(row.role) || is_key(row.role) || is_value(row.role));
    if (!is_fused) return tensor;
    return split_qkv(tensor, model_)[is_query(row.role) ? 0 : is_key(row.role) ? 1 : 2];
  }

  std::unique_ptr<TensorSet> weights_;
  const spec::ModelSpec& model_;
  const ConvertOptions& options_;
  std::unordered_map<const ParameterRow*, const StoredTensor*> found_;
};

at::Tensor read_part(const Source& source, const Part& part, const spec::ModelSpec& model) {
  if (part.rows.size() == 1) return source.read(*part.rows[0]);
  return fuse_qkv(source.read(*part.rows[0]), source.read(*part.rows[1]), source.read(*part.rows[2]), model);
}

constexpr const char* kCompanions[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json",
    "merges.txt",     "generation_config.json"};

// What stands beside weights and is of use with them.
std::vector<fs::path> companions(const fs::path& source) {
  std::vector<fs::path> files;
  if (!fs::is_directory(source)) return files;
  for (const char* name : kCompanions) {
    if (!fs::exists(source / name)) continue;
    check_own_file(source / name, source);
    files.push_back(source / name);
  }
  return files;
}

void check_has_effect(const spec::ModelSpec& model, const ConvertOptions& options) {
  if (model.family == spec::Family::llama) return;
  Problems problems;
  const char* remedy = "leave it out";
  if (options.source_rotary != RotaryLayout::half_split)
    problems.add("--rotary", "pairwise", "has no effect: gpt2 has no rotary positions", remedy);
  if (options.source_qkv != QkvLayout::separate || options.qkv != QkvLayout::separate)
    problems.add("--fused-qkv", "", "has no effect: gpt2's c_attn has one layout", remedy);
  problems.throw_if_any();
}

}  // namespace

ConvertSummary convert_weights(const fs::path& path, const fs::path& target, const spec::ModelSpec& model,
                               const ConvertOptions& options) {
  const spec::ParameterTable table(model);
  Problems problems;
  std::optional<Source> opened;
  problems.gather([&] { check_new_folder(target); });
  problems.gather([&] { check_has_effect(model, options); });
  problems.gather([&] { opened.emplace(path, model, table, options); });
  problems.throw_if_any();
  const Source& source = *opened;
  std::vector<OutgoingTensor> tensors;
  ConvertSummary summary;
  for (const Part& part : parts_of(table, options.qkv)) {
    const at::ScalarType dtype = options.dtype.value_or(source.dtype(*part.rows[0]));
    tensors.push_back({part.name, part.shape(), dtype, [&, part] { return read_part(source, part, model); }});
    summary.bytes += checked_bytes({part.name, to_dtype(dtype), part.shape()}, "convert");
    ++summary.tensors;
  }
  SaveOptions save = options.save;
  save.companions = companions(path);
  save_weights(target, model, tensors, save);
  return summary;
}

}  // namespace muster::checkpoint
