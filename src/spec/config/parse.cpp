// A job from text: the layers are gathered, the model is looked up, the keys are read over it, the rules are
// checked. Every step goes on past what is wrong, so that a person sees it all together.
#include <algorithm>
#include <ranges>

#include "base/file.h"
#include "spec/config/job.h"
#include "spec/config/layers.h"
#include "spec/config/rules.h"

namespace muster::spec {
namespace {

constexpr double kMuonMomentum = 0.95;

class Parser {
 public:
  explicit Parser(Layers layers) : layers_(std::move(layers)) {}

  Job parse(const std::string& path) {
    job_.path = path;
    for (const Field& field : fields()) job_.origins[field.name()] = "default";
    look_up_model();
    read_keys();
    follow_compute();
    follow_optimizer();
    complete_model();
    check();
    layers_.problems.throw_if_any();
    return std::move(job_);
  }

 private:
  const Given* given(const char* name) const {
    const auto found = layers_.given.find(name);
    return found == layers_.given.end() ? nullptr : &found->second;
  }

  // Runs a step on a key; when it fails, the key counts as unread.
  template <class Step>
  void attempt(const Given& given, Step&& step) {
    try {
      step();
    } catch (const UserError& error) {
      layers_.problems.add(error);
      unread_.insert(given.field->name());
    } catch (const WorldError& error) {
      layers_.problems.add(given.field->name(), given.value.dump(), error.what(), given.origin);
      unread_.insert(given.field->name());
    }
  }

  void look_up_model() {
    const Given* named = given("model.preset");
    const Given* file = given("model.config");
    if (named && file)
      layers_.problems.add("model.preset", named->value.dump(), "is one model, and model.config is another",
                           fmt::format("keep one of the two ({})", named->origin));
    if (named) attempt(*named, [&] { take_model(preset(read_text_value(*named)), "preset", *named); });
    if (file)
      attempt(*file, [&] {
        const std::string path = read_text_value(*file);
        take_model(from_hf_config(read_text(path), path), "config", *file);
      });
  }

  void take_model(const ModelSpec& model, const std::string& kind, const Given& from) {
    job_.model = model;
    job_.origins[from.field->name()] = from.origin;
    for (const Field& field : fields())
      if (field.section == "model" && field.in && field.key != "weights")
        job_.origins[field.name()] = kind + " " + from.value.get<std::string>();
    underive(job_.model);
  }

  // What followed from other dimensions follows again when those are changed.
  void underive(ModelSpec& model) const {
    if (given("model.num_attention_heads") && model.num_key_value_heads == model.num_attention_heads)
      model.num_key_value_heads = 0;
    if (model.num_attention_heads * model.head_dim == model.hidden_size &&
        (given("model.num_attention_heads") || given("model.hidden_size")))
      model.head_dim = 0;
    if (model.family == Family::gpt2 && given("model.hidden_size") &&
        model.intermediate_size == 4 * model.hidden_size)
      model.intermediate_size = 0;
  }

  void read_keys() {
    const Family before = job_.model.family;
    for (const auto& [name, from] : layers_.given) {
      if (!from.field->in) continue;
      attempt(from, [&] { read_value(from, job_); });
      job_.origins[name] = from.origin;
    }
    const bool has_base = given("model.preset") || given("model.config");
    if (has_base && given("model.family") && job_.model.family != before && !unread_in_model())
      layers_.problems.add("model.family", to_string(job_.model.family),
                           "is not the family of the preset or config, " + to_string(before),
                           fmt::format("leave it out ({})", given("model.family")->origin));
  }

  // The other formats follow `compute` where they are not given: in low precision layers read parameters of
  // its format, and what adds up over micro-batches, ranks and steps stays float32.
  void follow_compute() {
    NumericsConfig& numerics = job_.numerics;
    const bool is_low = bytes_of_format(numerics.compute) < 4;
    const std::string sums = is_low ? "float32" : numerics.compute;
    const auto follow = [&](const char* name, std::string& format, const std::string& with) {
      if (given(name) || format == with) return;
      format = with;
      job_.origins[name] = "follows from numerics.compute";
    };
    follow("numerics.parameters", numerics.parameters, numerics.compute);
    follow("numerics.gradients", numerics.gradients, sums);
    follow("numerics.master", numerics.master, is_low ? "float32" : "none");
    follow("numerics.optimizer", numerics.optimizer, sums);
  }

  // sgd goes without momentum where none is given; Muon does not.
  void follow_optimizer() {
    if (job_.optimizer.name != "muon" || given("optimizer.momentum")) return;
    job_.optimizer.momentum = kMuonMomentum;
    job_.origins["optimizer.momentum"] = "follows from optimizer.name";
  }

  static bool is_model_key(const std::string& name) { return name.starts_with("model."); }

  bool unread_in_model() const { return std::ranges::any_of(unread_, is_model_key); }

  void complete_model() {
    unread_.insert(layers_.doubtful.begin(), layers_.doubtful.end());
    const bool has_model = std::ranges::any_of(std::views::keys(layers_.given), is_model_key);
    if (!has_model)
      layers_.problems.add("model", "", "is missing", "give a preset, a config or the dimensions in [model]");
    if (!has_model || unread_in_model()) return distrust_model();
    Job before = job_;
    try {
      complete(job_.model);
    } catch (const UserError& error) {
      layers_.problems.add(error);
      for (const Problem& problem : error.problems()) unread_.insert(key_of(problem.field));
    }
    for (const Field& field : fields())
      if (field.section == "model" && field.in && to_toml(field, before) != to_toml(field, job_))
        job_.origins[field.name()] = "follows from the other model keys";
  }

  // A model that is not whole says nothing about the rest of the job.
  void distrust_model() {
    for (const Field& field : fields())
      if (field.section == "model") unread_.insert(field.name());
  }

  // "model.rope_scaling.type" -> "model.rope_scaling".
  static std::string key_of(const std::string& field) {
    return field.substr(0, field.find('.', std::string_view("model.").size()));
  }

  void check() {
    Rules rules(job_, layers_.problems, unread_);
    check_rules(rules);
    check_idle(rules);
    check_supported(rules);
  }

  Layers layers_;
  Job job_;
  std::set<std::string> unread_;
};

}  // namespace

Job recorded_job(const std::map<std::string, std::string>& values, const std::string& origin) {
  Layers layers;
  for (const auto& [name, toml] : values) add_recorded(layers, name, toml, origin);
  Job job;
  for (const auto& [name, given] : layers.given)
    if (given.field->in) layers.problems.gather([&] { read_value(given, job); });
  layers.problems.throw_if_any();
  complete(job.model);
  return job;
}

Job parse_job(const std::string& toml, const std::string& path, const std::vector<std::string>& settings) {
  Layers layers;
  add_file(layers, toml, path);
  add_environment(layers);
  add_settings(layers, settings);
  return Parser(std::move(layers)).parse(path);
}

Job load_job(const std::string& path, const std::vector<std::string>& settings) {
  std::string text;
  try {
    text = read_text(path);
  } catch (const WorldError& error) {
    throw UserError({"JOB", path, error.what(), "give the path of a job's TOML file"});
  }
  return parse_job(text, path, settings);
}

}  // namespace muster::spec
