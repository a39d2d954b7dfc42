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

// No model is near these; within them the products below stay exact in 64 bits.
constexpr int64_t kMostOfADimension = int64_t{1} << 24;
constexpr double kMostParameters = 1e15;

ParameterCount short_form(const ModelRequest& model) {
  ParameterCount count;
  const int64_t ffn = model.ffn > 0 ? model.ffn : 4 * model.hidden;
  count.dense = model.layers * (4 * model.hidden * model.hidden + 2 * model.hidden * ffn);
  count.embedding = model.vocab * model.hidden;
  return count;
}

// Overrides what a preset says, for the dimensions that the kind wants.
template <class Wants>
void read_dimensions(Options& options, const Wants& wants, ModelRequest& model) {
  const std::pair<const char*, int64_t ModelRequest::*> dimensions[] = {
      {"--layers", &ModelRequest::layers},     {"--hidden", &ModelRequest::hidden},
      {"--heads", &ModelRequest::heads},       {"--kv-heads", &ModelRequest::kv_heads},
      {"--head-dim", &ModelRequest::head_dim}, {"--ffn", &ModelRequest::ffn},
      {"--vocab", &ModelRequest::vocab},       {"--sequence", &ModelRequest::sequence}};
  for (const auto& [name, member] : dimensions) {
    const auto given = wants(name) ? options.count_up_to(name, kMostOfADimension) : std::nullopt;
    if (!given) continue;
    // Another dimension would make the preset's exact count another model's.
    if (model.has_dimensions && member != &ModelRequest::sequence)
      options.problems().add(name, std::to_string(*given), "contradicts --preset",
                             "give the dimensions without a preset");
    model.*member = *given;
  }
}

void complete_heads(ModelRequest& model, Problems& problems) {
  if (model.heads == 0) return;
  if (model.head_dim == 0 && model.hidden % model.heads != 0)
    problems.add("--heads", std::to_string(model.heads),
                 fmt::format("does not divide --hidden {}", model.hidden), "give --head-dim as well");
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.heads % model.kv_heads != 0)
    problems.add("--kv-heads", std::to_string(model.kv_heads),
                 fmt::format("does not divide --heads {}", model.heads), "choose a divisor");
  if (model.head_dim == 0) model.head_dim = model.hidden / model.heads;
}

void too_large(const char* option, double parameters, Problems& problems) {
  problems.add(option, fmt::format("{:.3g} parameters", parameters),
               fmt::format("is more than the {:g} that are counted exactly", kMostParameters), "correct it");
}

void count(Options& options, std::optional<double> billions, ModelRequest& model) {
  const double h = static_cast<double>(model.hidden);
  const double wide = static_cast<double>(std::max(4 * model.hidden, model.ffn));
  const double dense = static_cast<double>(model.layers) * h * (4 * h + 2 * wide);
  if (billions && *billions * 1e9 > kMostParameters) {
    too_large("--params", *billions * 1e9, options.problems());
  } else if (billions) {
    model.parameters = {};
    model.parameters.dense = std::llround(*billions * 1e9);
    model.tied = false;
  } else if (model.has_dimensions || model.layers == 0 || model.hidden == 0) {
    return;
  } else if (dense > kMostParameters) {
    too_large("--layers", dense, options.problems());
  } else {
    model.parameters = short_form(model);
  }
}

}  // namespace

ModelRequest read_model(Options& options, std::initializer_list<const char*> wanted) {
  const auto wants = [&](const std::string& name) {
    return std::any_of(wanted.begin(), wanted.end(), [&](const char* w) { return name == w; });
  };
  ModelRequest model;
  if (const auto name = wants("--preset") ? options.text("--preset") : std::nullopt)
    options.problems().gather([&] { model = from_preset(*name); });
  read_dimensions(options, wants, model);
  complete_heads(model, options.problems());
  count(options, wants("--params") ? options.quantity("--params") : std::nullopt, model);
  if (model.name.empty() && model.parameters.total() > 0)
    model.name = format_count(static_cast<double>(model.parameters.total())) + " parameters";
  return model;
}

}  // namespace muster::estimate
