#include "nn/transformer.h"

#include <algorithm>

#include "base/error.h"
#include "nn/ops/embedding.h"
#include "nn/ops/linear.h"

namespace muster::nn {
namespace {

using spec::Role;

Norm norm_of(ParameterStore& p, int64_t unit, const spec::ModelSpec& model, int64_t which) {
  // A block has two norms; rows of one role are told apart by their order.
  const auto& rows = p.table().rows();
  Norm norm{nullptr, nullptr, model.norm_eps};
  int64_t seen = 0;
  for (const spec::ParameterRow& row : rows)
    if (row.unit == unit && row.role == Role::norm_weight && seen++ == which) norm.weight = p.weight(row);
  seen = 0;
  for (const spec::ParameterRow& row : rows)
    if (row.unit == unit && row.role == Role::norm_bias && seen++ == which) norm.bias = p.weight(row);
  return norm;
}

AttentionLayer::Parameters attention_parameters(ParameterStore& p, int64_t unit,
                                                const spec::ModelSpec& model) {
  AttentionLayer::Parameters parameters{{norm_of(p, unit, model, 0)}};
  NormedLinear& qkv = parameters.qkv;
  qkv.weight = p.weight(unit, {Role::query, Role::key, Role::value});
  qkv.bias = p.weight(unit, {Role::query_bias, Role::key_bias, Role::value_bias});
  if (!qkv.weight) qkv.weight = p.weight(unit, {Role::query_key_value});
  if (!qkv.bias) qkv.bias = p.weight(unit, {Role::query_key_value_bias});
  parameters.out = p.weight(unit, {Role::attention_output});
  parameters.out_bias = p.weight(unit, {Role::attention_output_bias});
  return parameters;
}

MlpLayer::Parameters mlp_parameters(ParameterStore& p, int64_t unit, const spec::ModelSpec& model) {
  MlpLayer::Parameters parameters{{norm_of(p, unit, model, 1)}};
  NormedLinear& up = parameters.up;
  up.weight = p.weight(unit, {Role::gate, Role::up});
  if (!up.weight) up.weight = p.weight(unit, {Role::up});
  up.bias = p.weight(unit, {Role::up_bias});
  parameters.down = p.weight(unit, {Role::down});
  parameters.down_bias = p.weight(unit, {Role::down_bias});
  return parameters;
}

// Ranks have equal numbers of rows; the last ones may have fewer ids.
VocabularyPart part_of_vocabulary(int64_t vocabulary, int64_t rows_here, int64_t rank) {
  const int64_t first_id = rank * rows_here;
  return {first_id, std::clamp<int64_t>(vocabulary - first_id, 0, rows_here)};
}

std::string layer_name(int64_t layer, const char* half) {
  return fmt::format("layer {} {}", layer, half);
}

}  // namespace

Transformer::Transformer(const spec::ModelSpec& model, TensorGroup group, ContextGroup context,
                         ParameterStore& parameters, Executor& run, Options options)
    : model_(model),
      group_(group),
      options_(options),
      rotary_(make_rotary_table(run, model, options.length)) {
  const int64_t tensor = group.size(), last = model.num_hidden_layers + 1;
  const HeadShape heads{model.num_attention_heads / tensor,
                        std::max<int64_t>(1, model.num_key_value_heads / tensor), model.head_dim};
  const auto activation =
      model.family == spec::Family::llama ? MlpLayer::Activation::swiglu : MlpLayer::Activation::gelu;
  token_ = parameters.weight(0, {Role::token_embedding});
  position_ = parameters.weight(0, {Role::position_embedding});
  for (int64_t unit = 1; unit < last; ++unit) {
    attention_.emplace_back(attention_parameters(parameters, unit, model), heads, group, context);
    mlp_.emplace_back(mlp_parameters(parameters, unit, model), activation, model.intermediate_size / tensor,
                      group);
  }
  final_norm_ = norm_of(parameters, last, model, 0);
  head_ = parameters.weight(last, {Role::head});
  if (!head_) head_ = token_;
  vocabulary_ = part_of_vocabulary(model.vocab_size, head_->value.size(0), group.rank());
  keep_ = plan_of(run, options);
}

std::vector<Keep> Transformer::plan_of(const Executor& run, const Options& options) const {
  const auto element = static_cast<int64_t>(c10::elementSize(run.dtype())),
             statistic = static_cast<int64_t>(c10::elementSize(run.statistics_dtype()));
  const KeepCosts attention = attention_[0].costs(options.rows_in_flight, options.length, element, statistic),
                  mlp = mlp_[0].costs(options.rows_in_flight, element, statistic);
  KeepCosts layer;
  for (size_t keep = 0; keep < layer.size(); ++keep)
    layer[keep] = {attention[keep].bytes + mlp[keep].bytes, attention[keep].flops + mlp[keep].flops};
  return keep_plan(options.recompute, model_.num_hidden_layers, layer);
}

Dropout Transformer::dropout_at(const char* place, int64_t layer, const MicroBatch& batch,
                                bool training) const {
  if (!training || options_.dropout == 0) return {};
  return {options_.dropout, random_key(options_.seed, fmt::format("dropout {} {}", place, layer)),
          &batch.positions.stream, batch.step};
}

const RotaryTable& Transformer::rotary_for(Executor& run, int64_t length) {
  if (rotary_.defined() && rotary_.cos_LD.size(0) < length) rotary_ = make_rotary_table(run, model_, length);
  return rotary_;
}

at::Tensor Transformer::embedded(Executor& run, const MicroBatch& batch, bool training) {
  run.set_place("embeddings");
  const at::Tensor x_MH = run.empty({rows_here(batch), model_.hidden_size}, Category::activations);
  embed(run, group_, x_MH, batch.ids_N, *token_, position_, batch.positions);
  const Dropout dropout = dropout_at("embeddings", 0, batch, training);
  if (dropout.probability > 0) drop(run, x_MH, x_MH, dropout);
  return x_MH;
}

at::Tensor Transformer::through_blocks(Executor& run, const MicroBatch& batch, bool training, Saved* saved,
                                       UnitAccess& access) {
  access.use_values(0);
  at::Tensor x_MH = embedded(run, batch, training);
  if (!is_tied()) access.leave_values(0);
  const RotaryTable& rotary = rotary_for(run, batch.positions.end);
  if (saved) {
    saved->attention.resize(attention_.size());
    saved->mlp.resize(mlp_.size());
  }
  for (size_t layer = 0; layer < attention_.size(); ++layer) {
    const auto number = static_cast<int64_t>(layer);
    access.use_values(number + 1);
    run.set_place(layer_name(number, "attention"));
    x_MH = attention_[layer].forward(run, x_MH, batch.positions, rotary,
                                     dropout_at("attention", number, batch, training), keep_[layer],
                                     saved ? &saved->attention[layer] : nullptr);
    run.set_place(layer_name(number, "mlp"));
    x_MH = mlp_[layer].forward(run, x_MH, dropout_at("mlp", number, batch, training), keep_[layer],
                               saved ? &saved->mlp[layer] : nullptr);
    access.leave_values(number + 1);
  }
  access.use_values(last_unit());
  return x_MH;
}

void Transformer::loss(Executor& run, const MicroBatch& batch, at::Tensor loss_sum, at::Tensor dnormed_MH,
                       const at::Tensor& normed_MH) {
  const int64_t chunk =
      loss_chunk_rows(batch.targets_N.size(0), head_->value.size(0),
                      static_cast<int64_t>(normed_MH.element_size()), options_.loss_chunk_tokens);
  linear_cross_entropy(run, group_, std::move(loss_sum), std::move(dnormed_MH), normed_MH, *head_,
                       vocabulary_, batch.targets_N, chunk);
}

Transformer::Saved Transformer::forward(Executor& run, const MicroBatch& batch, at::Tensor loss_sum,
                                        UnitAccess& access) {
  run.set_phase("forward");
  Saved saved;
  saved.residual_MH = through_blocks(run, batch, /*training=*/true, &saved, access);
  run.set_place("loss");
  const at::Tensor normed_MH = run.empty(saved.residual_MH.sizes(), Category::temporary);
  norm(run, normed_MH, saved.norm, saved.residual_MH, final_norm_);
  saved.dnormed_MH = run.empty(saved.residual_MH.sizes(), Category::activations);
  access.use_gradients(last_unit());
  if (is_tied()) access.use_gradients(0);
  loss(run, batch, loss_sum, saved.dnormed_MH, normed_MH);
  if (is_tied()) access.leave_values(0);
  return saved;
}

void Transformer::backward(Executor& run, const MicroBatch& batch, Saved& saved, UnitAccess& access) {
  run.set_phase("backward");
  run.set_place("loss");
  const auto layers = static_cast<int64_t>(attention_.size());
  const at::Tensor d_MH = run.empty(saved.residual_MH.sizes(), Category::temporary);
  run.run("zero", {0, static_cast<int64_t>(d_MH.nbytes())}, [&] { d_MH.zero_(); });
  norm_backward(run, d_MH, saved.dnormed_MH, saved.norm, saved.residual_MH, final_norm_);
  saved.dnormed_MH = at::Tensor();
  saved.residual_MH = at::Tensor();
  saved.norm = {};
  access.leave_values(layers + 1);
  access.gradients_done(layers + 1);
  for (int64_t layer = layers - 1; layer >= 0; --layer) {
    access.use_values(layer + 1);
    access.use_gradients(layer + 1);
    backward_layer(run, batch, layer, d_MH, saved);
    access.leave_values(layer + 1);
    access.gradients_done(layer + 1);
  }
  run.set_place("embeddings");
  const Dropout dropout = dropout_at("embeddings", 0, batch, true);
  if (dropout.probability > 0) drop(run, d_MH, d_MH, dropout);
  access.use_gradients(0);
  embed_backward(run, group_, d_MH, batch.ids_N, *token_, position_, batch.positions);
  access.gradients_done(0);
}

void Transformer::backward_layer(Executor& run, const MicroBatch& batch, int64_t layer,
                                 const at::Tensor& d_MH, Saved& saved) {
  const auto at = static_cast<size_t>(layer);
  AttentionLayer::Saved& attention = saved.attention[at];
  MlpLayer::Saved& mlp = saved.mlp[at];
  const Dropout after_attention = dropout_at("attention", layer, batch, true);
  const auto restore_attention = [&] {
    run.set_phase("recompute");
    run.set_place(layer_name(layer, "attention"));
    attention_[at].restore(run, batch.positions, rotary_, attention);
  };
  if (!mlp.residual_MH.defined()) {
    restore_attention();
    mlp.residual_MH = attention_[at].output(run, after_attention, attention);
    run.set_place(layer_name(layer, "mlp"));
    mlp_[at].restore(run, mlp);
  }
  run.set_phase("backward");
  run.set_place(layer_name(layer, "mlp"));
  mlp_[at].backward(run, d_MH, dropout_at("mlp", layer, batch, true), mlp);
  restore_attention();
  run.set_phase("backward");
  attention_[at].backward(run, d_MH, batch.positions, rotary_, after_attention, attention);
}

void Transformer::evaluate(Executor& run, const MicroBatch& batch, at::Tensor loss_sum, UnitAccess& access) {
  run.set_phase("evaluate");
  const at::Tensor x_MH = through_blocks(run, batch, /*training=*/false, nullptr, access);
  run.set_place("loss");
  const at::Tensor normed_MH = run.empty(x_MH.sizes(), Category::temporary);
  NormSaved saved;
  norm(run, normed_MH, saved, x_MH, final_norm_);
  loss(run, batch, loss_sum, {}, normed_MH);
  access.leave_values(last_unit());
  if (is_tied()) access.leave_values(0);
}

at::Tensor Transformer::next_token_logits(Executor& run, const at::Tensor& ids_N) {
  MUSTER_CHECK(!group_.is_split(), "logits of one rank among {}", group_.size());
  run.set_phase("sample");
  const MicroBatch batch{ids_N, {}, whole_sequences(1, ids_N.size(0))};
  UnitAccess all_there;
  const at::Tensor x_MH = through_blocks(run, batch, /*training=*/false, nullptr, all_there);
  const at::Tensor last_1H = x_MH.narrow(0, x_MH.size(0) - 1, 1);
  const at::Tensor normed_1H = run.empty(last_1H.sizes(), Category::temporary);
  NormSaved saved;
  norm(run, normed_1H, saved, last_1H, final_norm_);
  const at::Tensor logits_1V = run.empty({1, head_->value.size(0)}, Category::temporary);
  linear(run, logits_1V, normed_1H, *head_, {});
  return logits_1V;
}

}  // namespace muster::nn
