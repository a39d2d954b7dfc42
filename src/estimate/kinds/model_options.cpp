#include "estimate/kinds/model_options.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "spec/model/model.h"

namespace muster::estimate {
namespace {

ModelRequest from_preset(const std::string& name) {
  const spec::ModelSpec spec = spec::preset(name);
  const Dimensions d = dimensions_of(spec);
  ModelRequest model;
  model.name = name;
  model.parameters = count_parameters(d);
  model.tied = d.tied;
  model.has_dimensions = true;
  model.layers = d.layers;
  model.hidden = d.hidden;
  model.heads = d.heads;
  model.kv_heads = d.kv_heads;
  model.head_dim = d.head_dim;
  model.ffn = d.ffn;
  model.vocab = d.vocab;
  model.sequence = spec.max_position_embeddings;
  return model;
}

ParameterCount all_dense(double billions) {
  ParameterCount count;
  count.dense = std::llround(billions * 1e9);
  return count;
}

ParameterCount short_form(const ModelRequest& model) {
  ParameterCount count;
  const int64_t ffn = model.ffn > 0 ? model.ffn : 4 * model.hidden;
  count.dense = model.layers * (4 * model.hidden * model.hidden + 2 * model.hidden * ffn);
  count.embedding = model.vocab * model.hidden;
  return count;
}

}  // namespace

ModelRequest read_model(Options& options, std::initializer_list<const char*> wanted) {
  const auto wants = [&](const std::string& name) {
    return std::any_of(wanted.begin(), wanted.end(), [&](const char* w) { return name == w; });
  };
  ModelRequest model;
  if (const auto name = wants("--preset") ? options.text("--preset") : std::nullopt)
    options.problems().gather([&] { model = from_preset(*name); });
  const auto dimension = [&](const char* name, int64_t& value) {
    if (!wants(name)) return;
    const auto given = options.count(name);
    // A changed dimension makes the preset's exact count another model's.
    if (given && model.has_dimensions && std::string(name) != "--sequence")
      options.problems().add(name, std::to_string(*given), "contradicts --preset",
                             "give the dimensions without a preset");
    if (given) value = *given;
  };
  dimension("--layers", model.layers);
  dimension("--hidden", model.hidden);
  dimension("--heads", model.heads);
  dimension("--kv-heads", model.kv_heads);
  dimension("--head-dim", model.head_dim);
  dimension("--ffn", model.ffn);
  dimension("--vocab", model.vocab);
  dimension("--sequence", model.sequence);
  if (model.heads > 0 && model.hidden % model.heads != 0 && model.head_dim == 0)
    options.problems().add("--heads", std::to_string(model.heads),
                           fmt::format("does not divide --hidden {}", model.hidden),
                           "give --head-dim as well");
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.kv_heads > 0 && model.heads % model.kv_heads != 0)
    options.problems().add("--kv-heads", std::to_string(model.kv_heads),
                           fmt::format("does not divide --heads {}", model.heads), "choose a divisor");
  if (model.head_dim == 0 && model.heads > 0) model.head_dim = model.hidden / model.heads;

  const auto billions = wants("--params") ? options.quantity("--params") : std::nullopt;
  if (billions) {
    model.parameters = all_dense(*billions);
    model.tied = false;
  } else if (!model.has_dimensions && model.layers > 0 && model.hidden > 0) {
    model.parameters = short_form(model);
  }
  if (model.name.empty() && model.parameters.total() > 0)
    model.name = format_count(static_cast<double>(model.parameters.total())) + " parameters";
  return model;
}

}  // namespace muster::estimate
