#include "spec/config/fields.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace muster::spec {
namespace {

template <auto Section, auto Member>
ValueRef at(Job& job) {
  return &(job.*Section.*Member);
}
template <auto Member>
ValueRef of_job(Job& job) {
  return &(job.*Member);
}

constexpr Domain any() {
  return {};
}
constexpr Domain one_of(std::string_view choices) {
  return {.choices = choices};
}
constexpr Domain at_least(double least) {
  return {.least = least};
}
constexpr Domain above(double least) {
  return {.least = least, .least_excluded = true};
}
constexpr Domain between(double least, double most) {
  return {.least = least, .most = most};
}
constexpr Domain inside(double least, double most) {
  return {.least = least, .most = most, .least_excluded = true, .most_excluded = true};
}
constexpr Domain from_below(double least, double most) {
  return {.least = least, .most = most, .most_excluded = true};
}
constexpr Domain path() {
  return {.text = TextKind::path};
}
constexpr Domain path_or_word() {
  return {.text = TextKind::path_or_word};
}

// Sizes of a mesh axis: four of them multiply without overflow.
constexpr Domain axis(double least) {
  return between(least, 32768);
}
// The limits of complete() (spec/model): every product of dimensions stays inside 63 bits.
constexpr Domain width(double least) {
  return between(least, 1 << 22);
}
constexpr Domain number_format() {
  return one_of("float32 | float64 | bfloat16 | float16");
}

using M = ModelSpec;
using D = DataConfig;
using T = TrainingConfig;
using O = OptimizerConfig;
using L = LayoutConfig;
using N = NumericsConfig;
using C = CheckpointConfig;

constexpr Field kFields[] = {
    {"model", "preset", nullptr, any(), "",
     "A public model by name (`muster doctor --presets` lists them); other model keys change it."},
    {"model", "config", nullptr, path(), "",
     "A Hugging Face `config.json` that gives the dimensions; other model keys change it."},
    {"model", "family", at<&Job::model, &M::family>, one_of("llama | gpt2"), "",
     "The kind of model: `llama` (RMSNorm, rotary positions, SwiGLU) or `gpt2` (LayerNorm, learned "
     "positions, "
     "GELU)."},
    {"model", "vocab_size", at<&Job::model, &M::vocab_size>, between(1, 1 << 28), "ids",
     "Size of the vocabulary."},
    {"model", "hidden_size", at<&Job::model, &M::hidden_size>, width(1), "", "Width of the residual stream."},
    {"model", "num_hidden_layers", at<&Job::model, &M::num_hidden_layers>, between(1, 1 << 14), "",
     "Number of blocks."},
    {"model", "num_attention_heads", at<&Job::model, &M::num_attention_heads>, width(1), "",
     "Query heads of a block."},
    {"model", "num_key_value_heads", at<&Job::model, &M::num_key_value_heads>, width(0), "",
     "Key and value heads of a block; 0: as many as query heads."},
    {"model", "head_dim", at<&Job::model, &M::head_dim>, width(0), "",
     "Width of a head; 0: hidden_size / num_attention_heads."},
    {"model", "intermediate_size", at<&Job::model, &M::intermediate_size>, width(0), "",
     "Width of the feed-forward layer; 0, for gpt2 alone: 4 x hidden_size."},
    {"model", "max_position_embeddings", at<&Job::model, &M::max_position_embeddings>, between(1, 1u << 31),
     "tokens", "Longest sequence; gpt2 has one learned position for each."},
    {"model", "rms_norm_eps", at<&Job::model, &M::norm_eps>, inside(0, 1), "",
     "Added to the variance in RMSNorm and LayerNorm."},
    {"model", "rope_theta", at<&Job::model, &M::rope_theta>, above(0), "", "Base of the rotary frequencies."},
    {"model", "rope_scaling", at<&Job::model, &M::rope_scaling>, any(), "",
     "Scaling of the rotary frequencies: `{ rope_type = \"llama3\", factor = 8.0, low_freq_factor = 1.0, "
     "high_freq_factor = 4.0, original_max_position_embeddings = 8192 }` or `{ rope_type = \"linear\", "
     "factor = "
     "2.0 }`."},
    {"model", "tie_word_embeddings", at<&Job::model, &M::tie_word_embeddings>, any(), "",
     "The vocabulary projection is the token embedding; gpt2 always ties."},
    {"model", "attention_bias", at<&Job::model, &M::attention_bias>, any(), "",
     "Query, key and value projections of llama have biases."},
    {"model", "initializer_range", at<&Job::model, &M::initializer_range>, inside(0, 10), "",
     "Standard deviation of the initial matrices."},
    {"model", "weights", of_job<&Job::weights>, path(), "",
     "What to start from: a safetensors file or folder with Hugging Face names, or a checkpoint of a run, of "
     "which only the parameters are taken; empty: initialise from the seed."},

    {"data", "path", at<&Job::data, &D::path>, path(), "",
     "The training set: a text or JSONL file, a Megatron `.bin`/`.idx` pair, or a flat binary of ids."},
    {"data", "format", at<&Job::data, &D::format>, one_of("text | jsonl | megatron | uint16 | uint32"), "",
     "How `path` is stored."},
    {"data", "tokenizer", at<&Job::data, &D::tokenizer>, path_or_word(), "",
     "`bytes`, or the path of a `tokenizer.json`."},
    {"data", "sequence_length", at<&Job::data, &D::sequence_length>, between(1, 1u << 31), "tokens",
     "Targets of one sequence; a sequence reads one id more."},
    {"data", "order", at<&Job::data, &D::order>, one_of("shuffled | sequential"), "",
     "Order of the sequences: a permutation that depends on the seed and the epoch, or as stored."},
    {"data", "document_end", at<&Job::data, &D::document_end>, at_least(-1), "",
     "Id that ends a document: attention does not go back over it and positions start again after it; -1: a "
     "sequence is one document."},
    {"data", "validation_path", at<&Job::data, &D::validation_path>, path(), "",
     "A validation set in the same format; empty: the last `validation_fraction` of `path`."},
    {"data", "validation_fraction", at<&Job::data, &D::validation_fraction>, from_below(0, 1), "",
     "Share of the sequences of `path`, taken from its end, that is held out for validation."},
    {"data", "text_key", at<&Job::data, &D::text_key>, any(), "",
     "The key of a JSONL object that holds its text."},
    {"data", "on_bad_line", at<&Job::data, &D::on_bad_line>, one_of("stop | skip"), "",
     "What a JSONL line that cannot be read does."},
    {"data", "sources", at<&Job::data, &D::sources>, any(), "",
     "A mixture in place of `path`: `[[data.sources]]` tables with `path`, `weight` and `from_sample` (the "
     "global sample from which the weight holds)."},

    {"training", "steps", at<&Job::training, &T::steps>, at_least(1), "updates", "Length of the run."},
    {"training", "global_batch_size", at<&Job::training, &T::global_batch_size>, between(1, 1 << 28),
     "sequences", "Sequences of one update, over all ranks: a multiple of data x micro_batch_size."},
    {"training", "micro_batch_size", at<&Job::training, &T::micro_batch_size>, between(1, 1 << 20),
     "sequences", "Sequences that one rank runs at a time; the rest is accumulated."},
    {"training", "seed", at<&Job::training, &T::seed>, at_least(0), "",
     "Of initial values, data order and dropout."},
    {"training", "log_every", at<&Job::training, &T::log_every>, at_least(1), "updates",
     "Between progress lines; metrics.jsonl has every update."},
    {"training", "evaluate_every", at<&Job::training, &T::evaluate_every>, at_least(0), "updates",
     "Between evaluations on the validation set; 0: never."},
    {"training", "evaluate_batches", at<&Job::training, &T::evaluate_batches>, at_least(1), "global batches",
     "Length of one evaluation."},
    {"training", "dropout", at<&Job::training, &T::dropout>, from_below(0, 1), "",
     "Probability, of embeddings, attention output and feed-forward output."},
    {"training", "device", at<&Job::training, &T::device>, one_of("cpu | cuda"), "", "Where tensors live."},
    {"training", "threads", at<&Job::training, &T::threads>, between(0, 4096), "",
     "Threads inside an operator on one rank; 0: cores / ranks of this machine."},
    {"training", "bucket_bytes", at<&Job::training, &T::bucket_bytes>, at_least(0), "bytes",
     "Gradients that are reduced together, as a number or \"25 MiB\"; 0: chosen (25 MiB)."},
    {"training", "loss_chunk_tokens", at<&Job::training, &T::loss_chunk_tokens>, at_least(0), "tokens",
     "Rows of logits that exist at one time, at least one of each rank that shares rows; 0: chosen."},
    {"training", "collective_timeout_seconds", at<&Job::training, &T::collective_timeout_seconds>,
     between(0.1, 86400), "seconds",
     "Longest wait in a collective before the run stops and names who is missing."},
    {"training", "host_transport", at<&Job::training, &T::host_transport>, one_of("memory | gloo"), "",
     "How ranks of one host talk on CPUs: `memory`, each reads the other's memory, where the system lets it; "
     "`gloo`, over sockets, as ranks of several hosts do."},
    {"training", "stop_after_skipped", at<&Job::training, &T::stop_after_skipped>, at_least(0), "updates",
     "The run stops, and names the samples, when this many updates in a row had a gradient that is not "
     "finite "
     "and were skipped; 0: never."},
    {"training", "deterministic", at<&Job::training, &T::deterministic>, any(), "",
     "Only operators that give the same bits each time."},

    {"optimizer", "name", at<&Job::optimizer, &O::name>, one_of("adamw | sgd | muon"), "",
     "The update rule; `muon` updates the blocks' matrices, and AdamW the rest."},
    {"optimizer", "learning_rate", at<&Job::optimizer, &O::learning_rate>, at_least(0), "",
     "Highest rate, reached after the warm-up."},
    {"optimizer", "minimum_learning_rate", at<&Job::optimizer, &O::minimum_learning_rate>, at_least(0), "",
     "Where the linear, cosine and wsd schedules end."},
    {"optimizer", "betas", at<&Job::optimizer, &O::betas>, from_below(0, 1), "",
     "Decay of AdamW's two moments."},
    {"optimizer", "eps", at<&Job::optimizer, &O::eps>, at_least(0), "", "Added to AdamW's denominator."},
    {"optimizer", "momentum", at<&Job::optimizer, &O::momentum>, from_below(0, 1), "",
     "Of sgd and muon; muon's is 0.95 unless given."},
    {"optimizer", "nesterov", at<&Job::optimizer, &O::nesterov>, any(), "",
     "Muon's momentum looks one gradient ahead."},
    {"optimizer", "newton_schulz_steps", at<&Job::optimizer, &O::newton_schulz_steps>, between(1, 10), "",
     "Iterations that bring a matrix of Muon near an orthogonal one."},
    {"optimizer", "weight_decay", at<&Job::optimizer, &O::weight_decay>, at_least(0), "",
     "Decoupled, times the learning rate."},
    {"optimizer", "weight_decay_on", at<&Job::optimizer, &O::weight_decay_on>, one_of("matrices | all"), "",
     "`matrices` leaves norms and biases out."},
    {"optimizer", "gradient_clip", at<&Job::optimizer, &O::gradient_clip>, at_least(0), "",
     "Largest global gradient norm; 0: no clipping."},
    {"optimizer", "schedule", at<&Job::optimizer, &O::schedule>, one_of("constant | linear | cosine | wsd"),
     "", "The learning rate after the warm-up; `wsd` is warm-up, stable, decay."},
    {"optimizer", "warmup_steps", at<&Job::optimizer, &O::warmup_steps>, at_least(0), "updates",
     "Linear rise from zero before any of the schedules."},
    {"optimizer", "decay_steps", at<&Job::optimizer, &O::decay_steps>, at_least(0), "updates",
     "Length of the decay at the end of `wsd`; 0: a tenth of the run."},

    {"layout", "data", at<&Job::layout, &L::data>, axis(0), "ranks",
     "Data parallel size, replicas x shards; 0: whatever the world leaves."},
    {"layout", "zero", at<&Job::layout, &L::zero>, between(0, 3), "",
     "What the data axis shards: 0 nothing, 1 optimizer states, 2 gradients too, 3 parameters too."},
    {"layout", "replicate", at<&Job::layout, &L::replicate>, axis(1), "",
     "Replicas of the shards: data = replicate x shards."},
    {"layout", "prefetch", at<&Job::layout, &L::prefetch>, between(0, 1 << 14), "units",
     "With zero = 3: units (the embeddings, a block, the head) whose parameters are gathered ahead of the "
     "one "
     "in use; at most one more is whole at a time."},
    {"layout", "keep_after_forward", at<&Job::layout, &L::keep_after_forward>, any(), "",
     "With zero = 3: gathered parameters stay from forward to backward and are not gathered again for it."},
    {"layout", "reduce_every", at<&Job::layout, &L::reduce_every>, one_of("micro_batch | step"), "",
     "With zero = 2 or 3, when gradients are reduced and sharded: after each micro-batch, or once a step, "
     "whole "
     "until then."},
    {"layout", "offload", at<&Job::layout, &L::offload>, one_of("none | host | file"), "",
     "Where the optimizer's state lives and the update runs: `none`, on the device; `host`, in host memory; "
     "`file`, in a file that passes through host memory a part at a time. Changes no bit (docs/offload.md)."},
    {"layout", "offload_path", at<&Job::layout, &L::offload_path>, path(), "",
     "With offload = \"file\": the folder, on a fast local disk, in which each rank makes its file for as "
     "long "
     "as it runs."},
    {"layout", "tensor", at<&Job::layout, &L::tensor>, axis(1), "ranks",
     "Tensor parallel size: heads, FFN and vocabulary are split over it."},
    {"layout", "sequence_parallel", at<&Job::layout, &L::sequence_parallel>, any(), "",
     "Norms, dropout and the residual stream are split by rows in the tensor group."},
    {"layout", "pipeline", at<&Job::layout, &L::pipeline>, axis(1), "stages", "Pipeline parallel size."},
    {"layout", "schedule", at<&Job::layout, &L::schedule>,
     one_of("gpipe | 1f1b | interleaved | zb-h1 | zb-v | dualpipe-v | 2bw"), "", "The pipeline's schedule."},
    {"layout", "chunks", at<&Job::layout, &L::chunks>, axis(1), "", "Model chunks of one stage."},
    {"layout", "context", at<&Job::layout, &L::context>, axis(1), "ranks", "Context parallel size."},
    {"layout", "context_method", at<&Job::layout, &L::context_method>, one_of("ring | all_to_all"), "",
     "How attention crosses context shards."},
    {"layout", "expert", at<&Job::layout, &L::expert>, axis(1), "ranks",
     "Expert parallel size, carved out of data x context."},
    {"layout", "recompute", at<&Job::layout, &L::recompute>, any(), "",
     "What backward computes again instead of keeping it: `none`; `selective`, the attention core; `full`, "
     "every "
     "layer from its input; `every:K`, layers 0, K, 2K, ... from theirs; `budget:SIZE`, as little as keeps "
     "all "
     "layers of a rank within so many bytes."},
    {"layout", "order", at<&Job::layout, &L::order>, one_of("tensor | context | data | pipeline"), "",
     "The mesh axes, innermost first."},

    {"numerics", "compute", at<&Job::numerics, &N::compute>, number_format(), "", "Format of activations."},
    {"numerics", "parameters", at<&Job::numerics, &N::parameters>, number_format(), "",
     "Format of the parameters that layers read; that of `compute`."},
    {"numerics", "gradients", at<&Job::numerics, &N::gradients>, number_format(), "",
     "Format in which gradients are accumulated and reduced; as `compute`, and float32 where that is a low "
     "precision, unless given."},
    {"numerics", "master", at<&Job::numerics, &N::master>, one_of("none | float32"), "",
     "Format of a second, wider copy of the parameters, which the update writes and checkpoints keep; "
     "float32 "
     "in low precision, unless given."},
    {"numerics", "optimizer", at<&Job::numerics, &N::optimizer>, number_format(), "",
     "Format of the optimizer's states; as `gradients` by default. `bfloat16`: AdamW's moments, updated in "
     "float32 (float64 of float64) and rounded to nearest."},
    {"numerics", "recipe", at<&Job::numerics, &N::recipe>, any(), "",
     "A named set of low-precision formats."},

    {"checkpoint", "every", at<&Job::checkpoint, &C::every>, at_least(0), "updates",
     "Between checkpoints. With this, `every_minutes` or `adaptive` SIGTERM and SIGINT save before the run "
     "stops, and the last step is saved; without any of them there are only the final weights."},
    {"checkpoint", "every_minutes", at<&Job::checkpoint, &C::every_minutes>, at_least(0), "minutes",
     "Between checkpoints, by the clock of rank 0; 0: not by time."},
    {"checkpoint", "adaptive", at<&Job::checkpoint, &C::adaptive>, any(), "",
     "The interval that loses least, by what a checkpoint costs (measured) and how often the run is "
     "interrupted (Daly 2006, equation 37)."},
    {"checkpoint", "hours_between_interruptions", at<&Job::checkpoint, &C::hours_between_interruptions>,
     at_least(0), "hours", "The mean that `adaptive` begins with; what the run sees is added to it."},
    {"checkpoint", "keep", at<&Job::checkpoint, &C::keep>, at_least(1), "",
     "Newest valid checkpoints that stay (docs/checkpoints.md)."},
    {"checkpoint", "async", at<&Job::checkpoint, &C::async>, any(), "",
     "Training goes on while a snapshot is written; it takes as much host memory as a rank writes."},
    {"checkpoint", "grace_seconds", at<&Job::checkpoint, &C::grace_seconds>, at_least(0), "seconds",
     "From SIGTERM or SIGINT to the end of the last save; one that is not durable by then is given up. "
     "With `async`."},
    {"checkpoint", "contract", at<&Job::checkpoint, &C::contract>,
     one_of("deterministic-replay | coverage-equivalent"), "",
     "What a resumed run must promise: the same bits, on the same layout; or, on any layout, the same "
     "tensors and samples (docs/checkpoints.md)."},

    {"hardware", "name", at<&Job::hardware, &HardwareConfig::name>, path_or_word(), "",
     "A file of configs/hardware by name, the path of one, or `local`: this machine."},
    {"hardware", "memory_bytes", at<&Job::hardware, &HardwareConfig::memory_bytes>, at_least(0), "bytes",
     "What the tensors of a rank may take of its device, as a number or \"80 GB\": a run whose rehearsed "
     "peak "
     "is larger is refused before it starts. 0: training is not bounded, and `rehearse` compares with the "
     "hardware's own."},
};

constexpr Alias kAliases[] = {
    {"n_embd", "hidden_size"},         {"n_layer", "num_hidden_layers"},
    {"n_head", "num_attention_heads"}, {"n_positions", "max_position_embeddings"},
    {"n_inner", "intermediate_size"},  {"layer_norm_epsilon", "rms_norm_eps"},
};

}  // namespace

std::span<const Field> fields() {
  return kFields;
}

std::span<const Alias> aliases() {
  return kAliases;
}

std::vector<std::string_view> sections() {
  std::vector<std::string_view> names;
  for (const Field& field : kFields)
    if (names.empty() || names.back() != field.section) names.push_back(field.section);
  return names;
}

const Field* find_field(std::string_view section, std::string_view key) {
  if (section == "model")
    for (const Alias& alias : kAliases)
      if (alias.other == key) key = alias.key;
  const auto* found = std::ranges::find_if(
      kFields, [&](const Field& field) { return field.section == section && field.key == key; });
  return found == std::end(kFields) ? nullptr : found;
}

const Field& field_named(std::string_view name) {
  const size_t dot = name.find('.');
  const Field* field = find_field(name.substr(0, dot), name.substr(dot + 1));
  MUSTER_CHECK(field, "no key {} in the table", name);
  return *field;
}

bool holds_text(const Field& field) {
  Job job;
  return !field.in || std::holds_alternative<std::string*>(field.in(job));
}

std::vector<std::string_view> choices_of(const Domain& domain) {
  std::vector<std::string_view> words;
  for (std::string_view rest = domain.choices; !rest.empty();) {
    const size_t bar = rest.find(" | ");
    words.push_back(rest.substr(0, bar));
    rest = bar == rest.npos ? "" : rest.substr(bar + 3);
  }
  return words;
}

std::string describe(const Domain& domain) {
  constexpr double none = std::numeric_limits<double>::infinity();
  if (!domain.choices.empty()) return fmt::format("one of {}", fmt::join(choices_of(domain), ", "));
  std::string text;
  if (domain.least > -none)
    text = fmt::format("{} {:.10g}", domain.least_excluded ? "above" : "at least", domain.least);
  if (domain.most < none)
    text += fmt::format("{}{} {:.10g}", text.empty() ? "" : " and ",
                        domain.most_excluded ? "below" : "at most", domain.most);
  return text;
}

}  // namespace muster::spec
