#include "estimate/kinds/memory_request.h"
#include "estimate/kinds/numbers.h"

namespace muster::estimate {
namespace {

constexpr const char* kZeroPaper = "Rajbhandari et al., ZeRO, SC 2020, sec. 5, fig. 1";
constexpr const char* kRecomputePaper = "Korthikanti et al., MLSys 2023 (arXiv 2205.05198)";

std::string state_formula(int zero) {
  constexpr const char* formulas[] = {"P (bp + bg + bo)", "P (bp + bg + bo/N)", "P (bp + (bg + bo)/N)",
                                      "P (bp + bg + bo)/N"};
  return formulas[zero];
}

Derivation parameters_line(const MemoryRequest& r, const Layout& layout, int64_t stage) {
  const StageParameters held = parameters_on_stage(r.model, layout, stage);
  return {"P, parameters on a rank", "dense/(T p) + experts/(E Te p) + replicated/p",
          fmt::format("{} + {} + {} = {}", format_exact(held.dense), format_exact(held.expert),
                      format_exact(held.replicated), format_exact(held.total())),
          "definition; first and last stage hold the embedding and the head"};
}

Derivation state_line(const MemoryRequest& r, const Layout& layout, const DeviceMemory& memory,
                      int64_t stage) {
  const auto& s = memory.states;
  return {
      "model states", state_formula(layout.zero),
      fmt::format("P = {}, bytes {},{},{}, N = {}: {} + {} + {} = {} GiB",
                  format_exact(parameters_on_stage(r.model, layout, stage).total()), plain(r.bytes.parameter),
                  plain(r.bytes.gradient), plain(r.bytes.optimizer), layout.dense_replicas(),
                  gib(s.parameters), gib(s.gradients), gib(s.optimizer), gib(s.total())),
      kZeroPaper};
}

std::string activation_formula(const LayerShape& shape, const Layout& layout) {
  if (layout.recompute == Recompute::full) return layout.sequence_parallel ? "s b h 2/t" : "s b h 2";
  const std::string scores = layout.recompute == Recompute::selective ? ""
                             : shape.is_llama()                       ? " + 4as/(ht)"
                                                                      : " + 5as/(ht)";
  const std::string divided = shape.is_llama() ? "(4q + 4kv + 8f)/(ht)" : "24/t";
  const std::string whole = shape.is_llama() ? "8" : "10";
  return fmt::format("s b h ({}{} + {}{})", whole, layout.sequence_parallel ? "/t" : "", divided, scores);
}

std::string activation_source(const LayerShape& shape, const Layout& layout) {
  if (shape.is_llama() && layout.recompute != Recompute::full)
    return std::string("counted as ") + kRecomputePaper + ", sec. 4, for the Llama layer";
  if (layout.recompute != Recompute::none) return std::string(kRecomputePaper) + ", table 2";
  const char* equation = layout.tensor == 1 ? "(1)" : layout.sequence_parallel ? "(4)" : "(2)";
  return fmt::format("{}, eq. {}", kRecomputePaper, equation);
}

Derivation activation_line(const MemoryRequest& r, const Layout& layout, const DeviceMemory& memory) {
  LayerShape shape = r.model.shape;
  shape.sequence /= layout.context;
  const double factor = activation_factor(shape, layout.tensor, layout.sequence_parallel, layout.recompute);
  const int64_t layer =
      activation_bytes_per_layer(shape, layout.tensor, layout.sequence_parallel, layout.recompute);
  return {"activations, a layer", activation_formula(shape, layout),
          fmt::format("{} x {} x {} x {} = {} GiB; {} layers, {} micro-batches in flight: {} GiB",
                      shape.sequence, shape.micro_batch, shape.hidden, plain(factor), gib(layer, 2),
                      r.model.layers / layout.pipeline, plain(memory.in_flight), gib(memory.activations)),
          activation_source(shape, layout)};
}

Derivation cache_line(const MemoryRequest& r) {
  const CacheShape shape = r.cache_shape();
  const int64_t tensor = cache_divisor(shape, r.cache_tensor());
  return {"KV cache of a sequence", "2 L s h_kv bytes / min(t, KV heads)",
          fmt::format("2 x {} x {} x {} x {} / {} = {} GiB", shape.layers, shape.sequence,
                      shape.kv_heads * shape.head_dim, shape.bytes, tensor,
                      gib(cache_bytes_per_sequence(shape, r.cache_tensor()), 3)),
          "Pope et al., Efficiently scaling transformer inference, MLSys 2023, sec. 3.3"};
}

}  // namespace

std::vector<Derivation> explain_memory(const MemoryRequest& r, const NamedLayout& named) {
  const Layout& layout = named.layout;
  const int64_t stage = fullest_stage(r.model, r.bytes, layout, r.reserve_bytes);
  const DeviceMemory memory = memory_on_stage(r.model, r.bytes, layout, stage);
  std::vector<Derivation> lines = {parameters_line(r, layout, stage), state_line(r, layout, memory, stage)};
  if (memory.gathered > 0)
    lines.push_back({"gathered units", "2 (P/L) bp",
                     fmt::format("the unit in use and the next: {} GiB", gib(memory.gathered)),
                     "ZeRO-3: the layer in use and the one prefetched stand whole"});
  if (r.has_shape()) lines.push_back(activation_line(r, layout, memory));
  if (layout.pipeline > 1)
    lines.push_back({"in flight",
                     layout.schedule == Schedule::one_f_one_b ? "min(p - stage, m)" : "by schedule",
                     fmt::format("{} micro-batches on stage {}", plain(memory.in_flight), stage),
                     "Narayanan et al., SC 2021, sec. 2.2"});
  if (layout.tensor > 1 && r.named.ffn > 0)
    lines.push_back({"FFN columns of a tensor rank", "f/t",
                     fmt::format("{} / {} = {}", r.named.ffn, layout.tensor, r.named.ffn / layout.tensor),
                     "Shoeybi et al., Megatron-LM, 2019, sec. 3"});
  if (r.model.vocab > 0)
    lines.push_back(
        {"logits and loss", "4 s b (h + V)/t on the last stage",
         fmt::format("{} GiB",
                     gib(head_bytes(r.model.shape, r.model.vocab, layout.tensor) / layout.context, 2)),
         std::string(kRecomputePaper) + ", sec. 4.3"});
  if (r.kv_cache) lines.push_back(cache_line(r));
  return lines;
}

}  // namespace muster::estimate
