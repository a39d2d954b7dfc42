#include "estimate/kinds/kind.h"

#include <algorithm>

#include "base/table.h"
#include "estimate/kinds/model_options.h"

namespace muster::estimate {
namespace {

constexpr OptionRow kMemoryOptions[] = {
    kPresetOption,
    kParamsOption,
    {"--layers", "N", "transformer layers"},
    {"--hidden", "N", "width of the model"},
    {"--heads", "N", "attention heads"},
    {"--kv-heads", "N", "heads of keys and values (as many as heads)"},
    {"--head-dim", "N", "width of a head (hidden / heads)"},
    {"--ffn", "N", "width of the feed-forward (4 hidden)"},
    {"--vocab", "N", "vocabulary: counts logits and loss"},
    {"--sequence", "N", "tokens of a sequence (the preset's longest)"},
    {"--micro-batch", "N", "sequences of a micro-batch (1)"},
    {"--gpus", "N", "devices (1)"},
    {"--gpus-per-node", "N", "the most devices a tensor group may have under --suggest (8)"},
    {"--recompute", "HOW", "none | selective | full (none)"},
    {"--layer", "KIND",
     "classic: the GPT layer of the papers | llama: grouped queries, SwiGLU, no dropout (classic)"},
    {"--no-sequence-parallel", nullptr, "tensor groups without sequence parallelism"},
    {"--device", "NAME", "takes the memory from configs/hardware"},
    {"--memory", "SIZE", "memory of a device, such as \"192 GiB\""},
    {"--reserve", "SIZE", "kept for logits, libraries, fragmentation (10 GiB)"},
    {"--bytes", "P,G,O", "bytes a parameter, gradient, optimizer state (2,2,12)"},
    {"--data", "N", "one layout instead of the strategies: data ranks"},
    {"--tensor", "N", "... tensor ranks"},
    {"--pipeline", "N", "... pipeline stages"},
    {"--context", "N", "... context ranks"},
    {"--zero", "STAGE", "... ZeRO stage: 0 to 3"},
    {"--schedule", "NAME", "... gpipe | 1f1b | interleaved | zb-h1 (1f1b)"},
    {"--chunks", "N", "... model chunks a stage under interleaved (2)"},
    {"--micro-batches", "N", "... micro-batches a step (enough to fill the pipeline)"},
    {"--expert-params", "B", "parameters of routed experts, in billions, beside --params"},
    {"--expert", "N", "... ranks over which experts are spread"},
    {"--expert-tensor", "N", "... ranks that cut one expert"},
    {"--suggest", nullptr, "layouts that fit, least disruptive first"},
    {"--top", "N", "how many of them (6)"},
    {"--kv-cache", nullptr,
     "inference: the cache, the largest batch, the scores that flash attention avoids"},
    {"--batch", "N", "... sequences (1)"},
    {"--kv-bytes", "N", "... bytes an element (2)"},
    {"--explain", nullptr, "each derivation with its numbers and its source"},
    {"--list-presets", nullptr, "the models by name"},
};

constexpr OptionRow kCollectiveOptions[] = {
    {"--gpus", "N", "devices of the group"},
    {"--bw", "GB/s", "bandwidth of a device's link, one direction"},
    {"--latency", "us", "latency of a message"},
    {"--op", "NAME", "allreduce | reduce_scatter | all_gather | all_to_all | broadcast | p2p"},
    {"--algorithm", "NAME", "ring | tree | one-shot | hierarchical (ring)"},
    {"--bytes", "SIZE", "one size, such as \"64 MiB\", instead of the table"},
    {"--gpus-per-node", "N", "two tiers: compares the flat ring and the hierarchy"},
    {"--inter-bw", "GB/s", "bandwidth of a device's link between nodes"},
    {"--inter-latency", "us", "its latency (as --latency)"},
    kPresetOption,
    {"--params", "B", "gradients of so many billions, in buckets"},
    {"--step-ms", "ms", "... their share of a step"},
    {"--layer-ratio", nullptr, "one layer's gradient against its computation"},
    {"--grad-accum", "N", "... micro-batches before the gradient is sent (1)"},
    {"--tensor-parallel", nullptr, "a tensor group's messages against its computation"},
    {"--decode", nullptr, "one token through a tensor group"},
    {"--batch", "N", "... sequences (1)"},
    {"--layers", "N", "layers of the model"},
    {"--hidden", "N", "its width"},
    {"--sequence", "N", "tokens of a sequence"},
    {"--micro-batch", "N", "sequences of a micro-batch (1)"},
    {"--tflops", "N", "what a device reaches (400)"},
};

constexpr OptionRow kPipelineOptions[] = {
    {"--stages", "P", "pipeline stages"},
    {"--micro-batches", "M", "micro-batches a step"},
    {"--schedule", "NAME", "gpipe | 1f1b | interleaved | zb-h1 (1f1b; interleaved with --chunks)"},
    {"--chunks", "V", "model chunks a stage"},
    {"--stage-ms", "MS[,MS...]", "forward and backward of a micro-batch on a stage, or on each"},
    {"--target-efficiency", "E", "how many micro-batches reach it (0.9)"},
    {"--sweep", nullptr, "efficiency over stages and micro-batches"},
    {"--columns", "N", "where the drawing is cut (160)"},
};

constexpr OptionRow kCheckpointOptions[] = {
    kParamsOption,
    {"--bytes-per-param", "N", "bytes of all state (16)"},
    {"--bandwidth", "GB/s", "of all writers together"},
    {"--every-min", "MIN", "share of time that blocking checkpoints take"},
    {"--mtbf-hours", "H", "mean time between failures of the job: the best interval"},
    {"--cost-s", "S", "what a checkpoint costs (its writing time)"},
    {"--nodes", "N", "the job's failures from a node's"},
    {"--node-mtbf-hours", "H", "... mean time between failures of one node"},
};

constexpr OptionRow kStragglerOptions[] = {
    {"--ranks", "N", "ranks that wait for each other"},
    {"--sigma", "S", "standard deviation of a rank's step, relative to its mean"},
};

constexpr OptionRow kThroughputOptions[] = {
    kPresetOption,
    kParamsOption,
    {"--layers", "N", "transformer layers"},
    {"--hidden", "N", "width of the model"},
    {"--heads", "N", "attention heads"},
    {"--head-dim", "N", "width of a head (hidden / heads)"},
    {"--ffn", "N", "width of the feed-forward (4 hidden)"},
    {"--vocab", "N", "vocabulary"},
    {"--sequence", "N", "tokens of a sequence"},
    {"--attention", "PAIRS", "causal | full | none: which pairs count (causal)"},
    {"--recompute", "HOW", "none | selective | full (none)"},
    {"--gpus", "N", "devices (1)"},
    {"--tokens-per-second", "N", "of all devices together"},
    {"--mfu", "SHARE", "... or the utilisation, and tokens follow"},
    {"--peak-tflops", "N", "dense peak of one device"},
    {"--device", "NAME", "... from configs/hardware"},
    {"--dtype", "NAME", "... of this dtype (bfloat16)"},
    {"--tokens", "N", "days for so many"},
};

constexpr OptionRow kBatchOptions[] = {
    {"--global", "N", "sequences of an update"},
    {"--data", "N", "data-parallel replicas"},
    {"--accumulation", "N", "micro-batches a replica runs"},
    {"--micro", "N", "sequences of a micro-batch"},
    {"--sequence", "N", "tokens of a sequence"},
};

constexpr Kind kKinds[] = {
    {"memory", "what one device must hold, and layouts that fit", kMemoryOptions,
     "  muster estimate memory --preset llama2-70b --gpus 8 --memory \"192 GiB\"\n"
     "  muster estimate memory --params 70 --layers 80 --hidden 8192 --heads 64 --sequence 4096 \\\n"
     "      --gpus 64 --memory \"192 GiB\" --suggest\n"
     "    the first layout: ZeRO-3 with selective recomputation, 19.6 + 85.0 + 10.0 = 114.6 GiB\n"
     "  muster estimate memory --preset llama3-8b --gpus 16 --tensor 2 --pipeline 4 --zero 1 --explain\n"
     "  muster estimate memory --preset llama2-70b --gpus 8 --memory \"80 GB\" --kv-cache --batch 16\n",
     memory_answer},
    {"collective", "times of collectives, and communication against computation", kCollectiveOptions,
     "  muster estimate collective --gpus 8 --bw 50 --latency 8\n"
     "    64 MiB: 2.461 ms, 47.7 GB/s; latency and transfer are equal at 3.05 MiB\n"
     "  muster estimate collective --gpus 16 --bw 25 --latency 15 --params 7 --step-ms 900\n"
     "    gradients: 1050.5 ms, 116.7 % of the step; 1290.8 ms in buckets of 25 MiB\n"
     "  muster estimate collective --gpus 8 --bw 300 --latency 5 --layer-ratio --hidden 8192 --grad-accum 8\n"
     "  muster estimate collective --gpus 8 --bw 300 --latency 5 --inter-bw 25 --inter-latency 15 \\\n"
     "      --tensor-parallel --params 70 --layers 80 --hidden 8192 --sequence 4096\n"
     "  muster estimate collective --gpus 64 --bw 300 --latency 5 --gpus-per-node 8 --inter-bw 25\n",
     collective_answer},
    {"pipeline", "bubbles, activations in flight, a timeline", kPipelineOptions,
     "  muster estimate pipeline --stages 8 --micro-batches 8 --sweep\n"
     "    bubble 46.7 % of capacity; 63 micro-batches reach 90 %\n"
     "  muster estimate pipeline --stages 4 --micro-batches 8 --chunks 2\n"
     "  muster estimate pipeline --stages 4 --micro-batches 8 --stage-ms 40,42,55,40\n",
     pipeline_answer},
    {"checkpoint", "size, time, the interval of least waste", kCheckpointOptions,
     "  muster estimate checkpoint --params 70 --bandwidth 10 --every-min 30\n"
     "    1043 GiB, 112 s, 6.2 % of the time\n"
     "  muster estimate checkpoint --mtbf-hours 3 --cost-s 20\n"
     "  muster estimate checkpoint --params 70 --bandwidth 200 --nodes 128 --node-mtbf-hours 20000\n",
     checkpoint_answer},
    {"straggler", "how far the slowest rank stretches a step", kStragglerOptions,
     "  muster estimate straggler --ranks 1024 --sigma 0.02\n"
     "    3.72 standard deviations: a step of 1.074\n",
     straggler_answer},
    {"throughput", "MFU and HFU from tokens a second and back, days for a corpus", kThroughputOptions,
     "  muster estimate throughput --preset llama3-8b --sequence 8192 --gpus 64 --device h100-sxm \\\n"
     "      --tokens-per-second 750000 --tokens 1e12\n"
     "  muster estimate throughput --params 70 --gpus 512 --peak-tflops 989 --mfu 0.45 --tokens 2e12\n",
     throughput_answer},
    {"batch", "global = data x accumulation x micro, the missing one derived", kBatchOptions,
     "  muster estimate batch --global 1024 --data 64 --micro 2\n"
     "    accumulation 8\n",
     batch_answer},
};

std::string all_help() {
  std::string text =
      "usage: muster estimate KIND [options] [--json]     (muster estimate KIND --help explains one)\n\n";
  Table table({"kind", "answers"});
  for (const Kind& kind : kKinds) table.add({kind.name, kind.summary});
  return text + table.text() +
         "\nClosed formulas, each with its source; docs/estimate.md has the JSON objects.\n";
}

std::string help(const Kind& kind) {
  Table table({"option", "meaning"});
  for (const OptionRow& row : kind.options)
    table.add({fmt::format("{} {}", row.name, row.value ? row.value : ""), row.help});
  table.add({"--json", "one object instead of tables"});
  return fmt::format("muster estimate {}: {}\n\n{}\nexamples\n{}", kind.name, kind.summary, table.text(),
                     kind.examples);
}

const Kind& find_kind(const std::string& name) {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) {
    if (name == kind.name) return kind;
    names.emplace_back(kind.name);
  }
  const std::string near = nearest(name, names);
  throw UserError({"estimate", name, "is not a kind of estimate",
                   near.empty() ? "`muster estimate --help` lists them" : "did you mean " + near + "?"});
}

// Takes a word out of the list; whether it was there.
bool take(std::vector<std::string>& words, const std::string& word) {
  return std::erase(words, word) > 0;
}

}  // namespace

std::span<const Kind> kinds() {
  return kKinds;
}

std::string run(const std::vector<std::string>& words) {
  std::vector<std::string> rest = words;
  const bool wants_help = take(rest, "--help") | take(rest, "-h");
  const bool wants_json = take(rest, "--json");
  if (rest.empty()) {
    if (wants_help) return all_help();
    throw UserError({"estimate", "", "needs a kind", "`muster estimate --help` lists them"});
  }
  const Kind& kind = find_kind(rest.front());
  if (wants_help) return help(kind);
  Options options(kind.options, {rest.begin() + 1, rest.end()});
  const Answer answer = kind.answer(options);
  return wants_json ? answer.json.dump(2) + "\n" : answer.text;
}

}  // namespace muster::estimate
