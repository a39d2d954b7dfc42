#include <algorithm>
#include <numeric>

#include "spec/config/recompute.h"
#include "spec/config/rules.h"
#include "spec/hardware/hardware.h"

namespace muster::spec {
namespace {

void check_data(Rules& rules) {
  const DataConfig& data = rules.job().data;
  rules.require(data.path.empty() || data.sources.empty(), {"data.path", "data.sources"},
                "is one training set, and data.sources is another", "keep one of the two");
  rules.require(data.validation_path.empty() || data.validation_fraction == 0,
                {"data.validation_path", "data.validation_fraction"},
                "is one validation set, and validation_fraction takes another from data.path",
                "keep one of the two");
  const bool has_validation = !data.validation_path.empty() || data.validation_fraction > 0;
  rules.require(rules.job().training.evaluate_every == 0 || has_validation,
                {"training.evaluate_every", "data.validation_path", "data.validation_fraction"},
                "needs a validation set", "give data.validation_path or data.validation_fraction");
  const bool starts_at_0 =
      std::ranges::any_of(data.sources, [](const DataSource& source) { return source.from_sample == 0; });
  rules.require(data.sources.empty() || starts_at_0, {"data.sources"},
                "must have a source from the first sample on", "give one of them from_sample = 0");
}

void check_vocabulary(Rules& rules) {
  const Job& job = rules.job();
  rules.require(job.data.document_end < job.model.vocab_size, {"data.document_end", "model.vocab_size"},
                fmt::format("must be an id below model.vocab_size = {}", job.model.vocab_size),
                "name the tokenizer's end of text, or -1 for none");
  const bool is_text = job.data.format == "text" || job.data.format == "jsonl";
  rules.require(!is_text || job.data.tokenizer != "bytes" || job.model.vocab_size >= 256,
                {"model.vocab_size", "data.tokenizer", "data.format"},
                "must be at least 256 with the bytes tokenizer", "each byte is an id");
  rules.require(
      job.model.family != Family::gpt2 || job.data.sequence_length <= job.model.max_position_embeddings,
      {"data.sequence_length", "model.max_position_embeddings", "model.family"},
      fmt::format("must be at most model.max_position_embeddings = {}: gpt2 learns each position",
                  job.model.max_position_embeddings),
      "shorten the sequences or give the model more positions");
}

void check_optimizer(Rules& rules) {
  const OptimizerConfig& optimizer = rules.job().optimizer;
  const int64_t steps = rules.job().training.steps;
  rules.require(optimizer.betas.size() == 2, {"optimizer.betas"}, "must be two numbers",
                "AdamW has two moments: betas = [0.9, 0.95]");
  rules.require(optimizer.name != "muon" || optimizer.momentum > 0, {"optimizer.momentum", "optimizer.name"},
                "must be above 0 with optimizer.name = muon, which orthogonalises the momentum",
                "use momentum = 0.95, or leave it out");
  // A step of bfloat16 is at least 2^-8 of a number: to nearest, a change below half of that is lost.
  constexpr double kMost = 1 - 0x1p-9;
  const bool decays = std::ranges::all_of(optimizer.betas, [](double beta) { return beta <= kMost; });
  rules.require(rules.job().numerics.optimizer != "bfloat16" || optimizer.name != "adamw" || decays,
                {"optimizer.betas", "numerics.optimizer", "optimizer.name"},
                fmt::format("must be at most {:.4f} with numerics.optimizer = bfloat16: moments that decay "
                            "slower round back to what they were",
                            kMost),
                "use betas = [0.9, 0.95], or numerics.optimizer = \"float32\"");
  rules.require(optimizer.minimum_learning_rate <= optimizer.learning_rate,
                {"optimizer.minimum_learning_rate", "optimizer.learning_rate"},
                fmt::format("must be at most learning_rate = {}", optimizer.learning_rate),
                "lower it or raise learning_rate");
  const bool fits = optimizer.decay_steps <= steps - std::min(steps, optimizer.warmup_steps);
  rules.require(
      optimizer.schedule != "wsd" || fits,
      {"optimizer.decay_steps", "optimizer.warmup_steps", "training.steps"},
      fmt::format("must fit in training.steps = {} after warmup_steps = {}", steps, optimizer.warmup_steps),
      "shorten the decay or lengthen the run");
}

void check_checkpoint(Rules& rules) {
  const CheckpointConfig& checkpoint = rules.job().checkpoint;
  rules.require(!checkpoint.adaptive || checkpoint.hours_between_interruptions > 0,
                {"checkpoint.hours_between_interruptions", "checkpoint.adaptive"},
                "must be given with checkpoint.adaptive",
                "say what to begin with, e.g. 24; what the run sees is added to it");
}

void check_layout(Rules& rules) {
  const LayoutConfig& layout = rules.job().layout;
  rules.require(layout.offload != "file" || !layout.offload_path.empty(),
                {"layout.offload_path", "layout.offload"}, "must be given with layout.offload = file",
                "name a folder on a fast local disk");
  std::vector<std::string> sorted = layout.order;
  std::ranges::sort(sorted);
  rules.require(sorted == std::vector<std::string>{"context", "data", "pipeline", "tensor"}, {"layout.order"},
                "must list each of tensor, context, data and pipeline once", "innermost first");
}

std::string nearest_multiples(int64_t number, int64_t divisor) {
  const int64_t below = number / divisor * divisor;
  if (below == 0) return fmt::format("{} is the least", divisor);
  return fmt::format("{} and {} are the nearest", below, below + divisor);
}

void check_batch(Rules& rules) {
  const Job& job = rules.job();
  const int64_t data = job.layout.data, micro = job.training.micro_batch_size,
                batch = job.training.global_batch_size;
  const auto keys = {"training.global_batch_size", "training.micro_batch_size", "layout.data"};
  if (data == 0) {
    rules.require(
        batch % micro == 0, keys,
        fmt::format("must be a multiple of micro_batch_size = {}, times the ranks of the data axis", micro),
        fmt::format("on 2 data ranks a multiple of {} is one", 2 * micro));
    return;
  }
  rules.require(batch % (data * micro) == 0, keys,
                fmt::format("must be a multiple of layout.data x micro_batch_size = {} x {} = {}", data,
                            micro, data * micro),
                nearest_multiples(batch, data * micro));
}

// Sizes of the tensor axis that both kinds of heads allow, nearest to what was asked.
std::string heads_remedy(const ModelSpec& model, int64_t tensor) {
  const auto fits = [&](int64_t size) {
    const int64_t key_heads = model.num_key_value_heads;
    return size > 0 && model.num_attention_heads % size == 0 &&
           (key_heads % size == 0 || size % key_heads == 0);
  };
  int64_t below = tensor, above = tensor;
  while (!fits(below)) --below;
  while (above < model.num_attention_heads && !fits(above)) ++above;
  return fits(above) ? fmt::format("{} and {} are the nearest sizes of the tensor axis", below, above)
                     : fmt::format("{} is the nearest size of the tensor axis", below);
}

// Rows of a micro-batch are shared out evenly, whatever sequences they belong to.
void check_sequence_parallel(Rules& rules) {
  const Job& job = rules.job();
  if (!job.layout.sequence_parallel || job.layout.tensor == 1) return;
  const int64_t shares = job.layout.tensor * job.layout.context;
  rules.require(
      job.data.sequence_length * job.training.micro_batch_size % shares == 0,
      {"data.sequence_length", "training.micro_batch_size", "layout.tensor", "layout.context",
       "layout.sequence_parallel"},
      fmt::format("times training.micro_batch_size = {} must be a multiple of layout.tensor{} = {}: "
                  "layout.sequence_parallel shares these rows out",
                  job.training.micro_batch_size, job.layout.context > 1 ? " x layout.context" : "", shares),
      nearest_multiples(job.data.sequence_length, shares / std::gcd(shares, job.training.micro_batch_size)));
}

// What the ranks of a tensor group share out evenly: whole heads and the FFN's width. Key-value heads that
// are fewer are shared by neighbours; the vocabulary is padded.
void check_tensor(Rules& rules) {
  const ModelSpec& model = rules.job().model;
  const int64_t tensor = rules.job().layout.tensor;
  const auto divides = [&](const char* key, int64_t size, const std::string& remedy) {
    rules.require(size % tensor == 0, {key, "layout.tensor"},
                  fmt::format("must be a multiple of layout.tensor = {}", tensor), remedy);
  };
  divides("model.num_attention_heads", model.num_attention_heads, heads_remedy(model, tensor));
  rules.require(model.num_key_value_heads % tensor == 0 || tensor % model.num_key_value_heads == 0,
                {"model.num_key_value_heads", "layout.tensor"},
                fmt::format("must be a multiple or a divisor of layout.tensor = {}", tensor),
                heads_remedy(model, tensor));
  divides("model.intermediate_size", model.intermediate_size,
          nearest_multiples(model.intermediate_size, tensor));
}

// The ring gives every rank an early and a late chunk; the all-to-all form an equal part of the tokens, and
// of the heads that a rank of the tensor group has.
void check_context(Rules& rules) {
  const LayoutConfig& layout = rules.job().layout;
  const ModelSpec& model = rules.job().model;
  const int64_t context = layout.context, length = rules.job().data.sequence_length;
  if (context == 1) return;
  const bool is_ring = layout.context_method == "ring";
  const int64_t parts = is_ring ? 2 * context : context;
  rules.require(length % parts == 0, {"data.sequence_length", "layout.context", "layout.context_method"},
                is_ring
                    ? fmt::format("must be a multiple of 2 x layout.context = {}: each rank of the ring has "
                                  "an early and a late chunk",
                                  parts)
                    : fmt::format("must be a multiple of layout.context = {}", parts),
                nearest_multiples(length, parts));
  if (is_ring) return;
  const int64_t heads = model.num_attention_heads / layout.tensor,
                key_heads = std::max<int64_t>(model.num_key_value_heads / layout.tensor, 1);
  const auto fits = [&](int64_t ranks) {
    return heads % ranks == 0 && (key_heads % ranks == 0 || ranks % key_heads == 0);
  };
  int64_t nearest = context;
  while (nearest > 1 && !fits(nearest)) --nearest;
  rules.require(
      fits(context),
      {"layout.context", "layout.context_method", "layout.tensor", "model.num_attention_heads",
       "model.num_key_value_heads"},
      fmt::format("with context_method = \"all_to_all\" must divide the {} query heads of a rank, and divide "
                  "its {} key-value heads or be a multiple of them",
                  heads, key_heads),
      fmt::format("context = {} is the nearest below; the ring takes any number of heads", nearest));
}

}  // namespace

void check_rules(Rules& rules) {
  check_data(rules);
  check_vocabulary(rules);
  check_optimizer(rules);
  check_checkpoint(rules);
  check_layout(rules);
  rules.gather("layout.recompute", [&] { parse_recompute(rules.job().layout.recompute); });
  rules.gather("hardware.name", [&] { load_hardware(rules.job().hardware.name); });
  check_divisions(rules);
}

// Sizes of 0 say nothing yet.
void check_shards(Rules& rules) {
  const LayoutConfig& layout = rules.job().layout;
  if (layout.zero == 0 || layout.data == 0) return;
  rules.require(layout.data % layout.replicate == 0, {"layout.replicate", "layout.data"},
                fmt::format("must divide layout.data = {}", layout.data), "data = replicate x shards");
  rules.require(layout.data * layout.context > layout.replicate,
                {"layout.zero", "layout.data", "layout.replicate", "layout.context"},
                fmt::format("has nobody to share with: data x context / replicate = {} x {} / {} = 1",
                            layout.data, layout.context, layout.replicate),
                "use zero = 0, or more ranks a replica");
}

// Of one micro-batch there is no sum to wait for.
void check_accumulation(Rules& rules) {
  const Job& job = rules.job();
  if (job.layout.zero < 2 || job.layout.data == 0 || job.layout.reduce_every != "step") return;
  const int64_t sequences = job.layout.data * job.training.micro_batch_size;
  rules.require(job.training.global_batch_size > sequences,
                {"layout.reduce_every", "layout.zero", "layout.data", "training.global_batch_size",
                 "training.micro_batch_size"},
                fmt::format("has no effect: data x micro_batch_size = {} sequences are the whole step, one "
                            "micro-batch",
                            sequences),
                "leave it out, or make micro-batches smaller");
}

void check_divisions(Rules& rules) {
  check_batch(rules);
  check_accumulation(rules);
  check_shards(rules);
  check_tensor(rules);
  check_context(rules);
  check_sequence_parallel(rules);
}

}  // namespace muster::spec
