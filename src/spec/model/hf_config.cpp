// config.json as transformers writes it. What transformers would fill in for a missing key is filled in here
// (its LlamaConfig, Qwen2Config, MistralConfig and GPT2Config); what would change the function that the
// weights compute, and that these models cannot compute, is refused; the rest (token ids, caches, dropout
// rates, versions) is left unread.
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "spec/model/model.h"

namespace muster::spec {
namespace {

constexpr const char* kOtherModel = "this model is not one that muster computes";

// Reads keys of one JSON object, gathering what is wrong with them.
class Reader {
 public:
  Reader(const Json& object, std::string where, Problems& problems)
      : object_(object), where_(std::move(where)), problems_(problems) {}

  bool mentions(const char* key) const { return object_.contains(key); }
  // With few exceptions, null means to transformers what a missing key means.
  bool has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }
  const Json& at(const char* key) const { return object_[key]; }

  void refuse(const char* key, std::string rule, std::string remedy) {
    problems_.add(where_ + key, has(key) ? shortened(object_[key].dump()) : "", std::move(rule),
                  std::move(remedy));
  }
  void integer(const char* key, int64_t& value) {
    if (!has(key)) return;
    const Json& json = object_[key];
    const bool fits =
        json.is_number_integer() && (!json.is_number_unsigned() || json.get<uint64_t>() >> 63 == 0);
    fits ? void(value = json.get<int64_t>()) : refuse(key, "must be a whole number", "");
  }
  void required_integer(const char* key, int64_t& value) {
    has(key) ? integer(key, value)
             : refuse(key, "is missing", "take the config.json that came with the weights");
  }
  void number(const char* key, double& value) {
    if (!has(key)) return;
    object_[key].is_number() ? void(value = object_[key].get<double>()) : refuse(key, "must be a number", "");
  }
  void flag(const char* key, bool& value) {
    if (!has(key)) return;
    object_[key].is_boolean() ? void(value = object_[key].get<bool>())
                              : refuse(key, "must be true or false", "");
  }
  std::string text(const char* key) {
    if (!has(key)) return "";
    if (object_[key].is_string()) return object_[key].get<std::string>();
    refuse(key, "must be a string", "");
    return "";
  }
  // Refuses any value but `neutral`, the one under which these models compute what transformers does.
  void must_be(const char* key, const Json& neutral) {
    if (has(key) && object_[key] != neutral)
      refuse(key, "must be " + neutral.dump() + " or left out", kOtherModel);
  }
  void must_be_one_of(const char* key, const std::vector<std::string>& values) {
    if (!has(key)) return;
    const std::string value = text(key);
    std::string names;
    for (const std::string& allowed : values) {
      if (value == allowed) return;
      names += (names.empty() ? "" : " or ") + allowed;
    }
    refuse(key, "must be " + names, kOtherModel);
  }

 private:
  static std::string shortened(std::string text) {
    return text.size() <= 80 ? text : text.substr(0, 77) + "...";
  }

  const Json& object_;
  std::string where_;
  Problems& problems_;
};

// rope_scaling (transformers 4) or rope_parameters (5): "rope_type", or "type" in older files.
void read_rotary(const Json& json, const std::string& where, ModelSpec& model, Problems& problems) {
  if (!json.is_object()) return problems.add(where, json.dump(), "must be an object or null", "");
  Reader rotary(json, where + ".", problems);
  rotary.number("rope_theta", model.rope_theta);
  rotary.must_be("partial_rotary_factor", 1.0);
  const char* key = rotary.has("rope_type") ? "rope_type" : "type";
  const std::string type = rotary.text(key);
  if (type.empty() || type == "default") return;
  if (type != "linear" && type != "llama3")
    return rotary.refuse(key, "must be default, linear or llama3", kOtherModel);
  model.rope_scaling.type = type;
  if (!rotary.has("factor"))
    rotary.refuse("factor", "is missing", "it is the ratio of the new context to the old");
  rotary.number("factor", model.rope_scaling.factor);
  if (type == "linear") return;
  for (const char* needed : {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
    if (!rotary.has(needed)) rotary.refuse(needed, "is missing", "rope type llama3 needs it");
  rotary.number("low_freq_factor", model.rope_scaling.low_freq_factor);
  rotary.number("high_freq_factor", model.rope_scaling.high_freq_factor);
  rotary.integer("original_max_position_embeddings", model.rope_scaling.original_max_position_embeddings);
}

// A window as long as the longest sequence is no window.
void refuse_window(Reader& config, const ModelSpec& model) {
  int64_t window = 0;
  config.integer("sliding_window", window);
  if (config.has("sliding_window") && window < model.max_position_embeddings)
    config.refuse("sliding_window", "must be null: attention here reaches every earlier token",
                  "use a release without a window");
}

void refuse_layer_types(Reader& config) {
  if (!config.has("layer_types")) return;
  const Json& types = config.at("layer_types");
  for (const Json& type : types)
    if (type != "full_attention")
      return config.refuse("layer_types", "must all be full_attention", kOtherModel);
}

void read_llama_shape(Reader& config, const std::string& where, ModelSpec& model, Problems& problems) {
  model.norm_eps = 1e-6;
  config.required_integer("vocab_size", model.vocab_size);
  config.required_integer("hidden_size", model.hidden_size);
  config.required_integer("num_hidden_layers", model.num_hidden_layers);
  config.required_integer("num_attention_heads", model.num_attention_heads);
  config.required_integer("intermediate_size", model.intermediate_size);
  config.integer("num_key_value_heads", model.num_key_value_heads);
  config.integer("head_dim", model.head_dim);
  config.integer("max_position_embeddings", model.max_position_embeddings);
  config.number("rms_norm_eps", model.norm_eps);
  config.number("rope_theta", model.rope_theta);
  config.flag("tie_word_embeddings", model.tie_word_embeddings);
  config.number("initializer_range", model.initializer_range);
  config.must_be_one_of("hidden_act", {"silu", "swish"});
  config.must_be("mlp_bias", false);
  config.must_be("partial_rotary_factor", 1.0);
  refuse_layer_types(config);
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (config.has(key)) read_rotary(config.at(key), where + key, model, problems);
}

void read_llama(Reader& config, const std::string& where, ModelSpec& model, Problems& problems) {
  read_llama_shape(config, where, model, problems);
  // In transformers' Llama this also gives the output projection a bias, which these models have not.
  config.must_be("attention_bias", false);
}

void read_qwen2(Reader& config, const std::string& where, ModelSpec& model, Problems& problems) {
  model.max_position_embeddings = 32768;
  read_llama_shape(config, where, model, problems);
  model.attention_bias = true;
  bool windowed = false;
  config.flag("use_sliding_window", windowed);
  if (windowed) refuse_window(config, model);
}

void read_mistral(Reader& config, const std::string& where, ModelSpec& model, Problems& problems) {
  model.max_position_embeddings = 131072;
  read_llama_shape(config, where, model, problems);
  config.required_integer("num_key_value_heads", model.num_key_value_heads);
  // A window of 4096 where nothing is said; an explicit null is none.
  config.mentions("sliding_window")
      ? refuse_window(config, model)
      : config.refuse("sliding_window", "is missing, which means 4096", "say null where there is no window");
}

void read_gpt2(Reader& config, const std::string&, ModelSpec& model, Problems&) {
  model.family = Family::gpt2;
  model.max_position_embeddings = 1024;
  config.required_integer("vocab_size", model.vocab_size);
  config.required_integer("n_embd", model.hidden_size);
  config.required_integer("n_layer", model.num_hidden_layers);
  config.required_integer("n_head", model.num_attention_heads);
  config.integer("n_positions", model.max_position_embeddings);
  config.integer("n_inner", model.intermediate_size);
  config.number("layer_norm_epsilon", model.norm_eps);
  config.number("initializer_range", model.initializer_range);
  config.must_be_one_of("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  config.must_be("scale_attn_weights", true);
  config.must_be("scale_attn_by_inverse_layer_idx", false);
  config.must_be("add_cross_attention", false);
  config.must_be("tie_word_embeddings", true);
}

struct Architecture {
  const char* model_type;
  void (*read)(Reader&, const std::string&, ModelSpec&, Problems&);
};
constexpr Architecture kArchitectures[] = {
    {"llama", read_llama}, {"qwen2", read_qwen2}, {"mistral", read_mistral}, {"gpt2", read_gpt2}};

Json parse_object(const std::string& text, const std::string& name) {
  try {
    Json json = parse_json(text, name, /*most_depth=*/8);
    if (json.is_object()) return json;
  } catch (const WorldError& error) {
    throw UserError({name, "", error.what(), "take the config.json that came with the weights"});
  }
  throw UserError({name, "", "must hold one JSON object", "take the config.json that came with the weights"});
}

// complete() names fields "model.hidden_size"; a reader of config.json looks for them there.
void gather_completion(ModelSpec& model, const std::string& where, Problems& problems) {
  try {
    complete(model);
  } catch (const UserError& error) {
    for (const Problem& problem : error.problems())
      problems.add(where + problem.field.substr(problem.field.find('.') + 1), problem.value, problem.rule,
                   problem.remedy);
  }
}

Json rotary_json(const ModelSpec& model) {
  const RopeScaling& scaling = model.rope_scaling;
  if (scaling.type == "none") return nullptr;
  Json json = {{"rope_type", scaling.type}, {"factor", scaling.factor}};
  if (scaling.type == "llama3") {
    json["low_freq_factor"] = scaling.low_freq_factor;
    json["high_freq_factor"] = scaling.high_freq_factor;
    json["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  }
  return json;
}

Json llama_json(const ModelSpec& model) {
  const bool is_qwen2 = model.attention_bias;
  Json json = {{"architectures", {is_qwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
               {"model_type", is_qwen2 ? "qwen2" : "llama"},
               {"vocab_size", model.vocab_size},
               {"hidden_size", model.hidden_size},
               {"num_hidden_layers", model.num_hidden_layers},
               {"num_attention_heads", model.num_attention_heads},
               {"num_key_value_heads", model.num_key_value_heads},
               {"head_dim", model.head_dim},
               {"intermediate_size", model.intermediate_size},
               {"max_position_embeddings", model.max_position_embeddings},
               {"hidden_act", "silu"},
               {"rms_norm_eps", model.norm_eps},
               {"rope_theta", model.rope_theta},
               {"rope_scaling", rotary_json(model)},
               {"tie_word_embeddings", model.tie_word_embeddings},
               {"initializer_range", model.initializer_range},
               {"attention_dropout", 0.0}};
  if (is_qwen2) {
    json["use_sliding_window"] = false;
  } else {
    json["attention_bias"] = false;
    json["mlp_bias"] = false;
  }
  return json;
}

Json gpt2_json(const ModelSpec& model) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", model.vocab_size},
          {"n_embd", model.hidden_size},
          {"n_layer", model.num_hidden_layers},
          {"n_head", model.num_attention_heads},
          {"n_positions", model.max_position_embeddings},
          {"n_inner", model.intermediate_size},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", model.norm_eps},
          {"initializer_range", model.initializer_range},
          {"tie_word_embeddings", true}};
}

}  // namespace

ModelSpec from_hf_config(const std::string& text, const std::string& name) {
  const Json json = parse_object(text, name);
  const std::string where = name + ": ";
  Problems problems;
  Reader config(json, where, problems);
  const std::string type = config.text("model_type");
  ModelSpec model;
  for (const Architecture& architecture : kArchitectures) {
    if (type != architecture.model_type) continue;
    if (config.has("quantization_config"))
      config.refuse("quantization_config", "must be absent: weights are read unquantised",
                    "use the unquantised release");
    architecture.read(config, where, model, problems);
    if (problems.empty()) gather_completion(model, where, problems);
    problems.throw_if_any();
    return model;
  }
  config.refuse("model_type", "must be llama, qwen2, mistral or gpt2", kOtherModel);
  problems.throw_if_any();
  return model;
}

std::string to_hf_config(const ModelSpec& model, const std::string& dtype) {
  Json json = model.family == Family::gpt2 ? gpt2_json(model) : llama_json(model);
  json["torch_dtype"] = dtype;
  return json.dump(2) + "\n";
}

}  // namespace muster::spec
