// A job as data: what the user asked for, after presets and defaults, before anything runs.
// The keys, their defaults, types and docs stand in fields.cpp, one table; parse.cpp reads TOML by it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "spec/model/model.h"

namespace muster::spec {

// One set of documents in a mixture. `from_sample`: the global sample index from which this weight holds.
struct DataSource {
  std::string path;
  double weight = 1;
  int64_t from_sample = 0;
};

struct DataConfig {
  std::string path;
  std::string format = "text";      // text | jsonl | megatron | uint16 | uint32
  std::string tokenizer = "bytes";  // bytes | path to tokenizer.json
  int64_t sequence_length = 128;
  std::string order = "shuffled";    // shuffled | sequential
  int64_t document_end = -1;         // id that ends a document; -1: a sequence is one document
  std::string validation_path;       // empty: the last validation_fraction of `path`
  double validation_fraction = 0;    // of the sequences of `path`, taken from its end
  std::string text_key = "text";     // of a JSONL object
  std::string on_bad_line = "stop";  // stop | skip
  std::vector<DataSource> sources;   // [[data.sources]]: a mixture in place of `path`
};

struct TrainingConfig {
  int64_t steps = 20;
  int64_t global_batch_size = 8;  // sequences a step
  int64_t micro_batch_size = 2;   // sequences a micro-batch on one rank
  uint64_t seed = 1;
  int64_t log_every = 1;          // steps between progress lines (metrics.jsonl has every step)
  int64_t evaluate_every = 0;     // steps; 0: never
  int64_t evaluate_batches = 8;   // global batches an evaluation
  double dropout = 0;             // of embeddings, attention output and FFN output
  std::string device = "cpu";     // cpu | cuda
  int64_t threads = 0;            // intra-op threads a rank; 0: cores / local ranks
  int64_t bucket_bytes = 0;       // gradient bucket; 0: chosen (25 MiB)
  int64_t loss_chunk_tokens = 0;  // rows of logits that exist at one time; 0: chosen
  double collective_timeout_seconds = 60;
  std::string host_transport = "memory";  // memory | gloo: between ranks of one host, on CPUs
  int64_t stop_after_skipped = 2;         // updates in a row without a finite gradient; 0: never
  bool deterministic = true;
};

struct OptimizerConfig {
  std::string name = "adamw";  // adamw | sgd | muon
  double learning_rate = 3e-4;
  double minimum_learning_rate = 0;  // where linear, cosine and decay end
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0;              // sgd; muon, where 0.95 is the default
  bool nesterov = true;             // muon
  int64_t newton_schulz_steps = 5;  // muon
  double weight_decay = 0.1;
  std::string weight_decay_on = "matrices";  // matrices | all
  double gradient_clip = 1.0;                // 0: none
  std::string schedule = "cosine";           // constant | linear | cosine | wsd (warm-up, stable, decay)
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // wsd: length of the decay; 0: a tenth of the steps
};

// Sizes of 0 mean "whatever the world leaves". `data` counts replicas times shards.
struct LayoutConfig {
  int64_t data = 0;
  int64_t zero = 0;
  int64_t replicate = 1;
  int64_t prefetch = 1;                      // zero 3: units gathered ahead of the one in use
  bool keep_after_forward = false;           // zero 3: a gathered unit stays until its backward
  std::string reduce_every = "micro_batch";  // zero 2 and 3: micro_batch | step
  std::string offload = "none";              // of the optimizer's state and update: none | host | file
  std::string offload_path;                  // file: the folder that it is made in
  int64_t tensor = 1;
  bool sequence_parallel = false;
  int64_t pipeline = 1;
  std::string schedule = "1f1b";
  int64_t chunks = 1;
  int64_t context = 1;
  std::string context_method = "ring";
  int64_t expert = 1;
  std::string recompute = "none";
  std::vector<std::string> order = {"tensor", "context", "data", "pipeline"};  // innermost first
};

struct NumericsConfig {
  std::string compute = "float32";
  std::string parameters = "float32";
  std::string gradients = "float32";
  std::string master = "none";
  std::string optimizer = "float32";
  std::string recipe = "none";
};

struct CheckpointConfig {
  int64_t every = 0;         // steps; 0: not by steps
  double every_minutes = 0;  // 0: not by time
  bool adaptive = false;     // the interval of least waste
  double hours_between_interruptions = 0;
  int64_t keep = 2;
  bool async = true;
  double grace_seconds = 30;
  std::string contract = "deterministic-replay";
  // Without any of these there are only the final weights.
  bool is_on() const { return every > 0 || every_minutes > 0 || adaptive; }
};

struct HardwareConfig {
  std::string name = "local";  // a file of configs/hardware, a path, or "local"
  int64_t memory_bytes = 0;    // that a rank may hold of its device; 0: not bounded
};

struct Job {
  std::string path;  // the job's file, for messages; its folder is the base of relative paths
  ModelSpec model;
  std::string weights;  // safetensors file or folder to start from; empty: initialise
  DataConfig data;
  TrainingConfig training;
  OptimizerConfig optimizer;
  LayoutConfig layout;
  NumericsConfig numerics;
  CheckpointConfig checkpoint;
  HardwareConfig hardware;

  // "section.key" -> where its value came from: "default", "preset llama2-7b", "file job.toml:12",
  // "environment MUSTER_...", "command line".
  std::map<std::string, std::string> origins;
};

// ---- parse.cpp ----
// Reads and checks a job. `settings` are "section.key=value" from the command line, last one wins; a value is
// TOML, a bare word is taken as a string. Precedence: command line, environment, file, preset, default.
// Everything wrong that can be known without touching data or weights is reported in one UserError: unknown
// keys (with the nearest known name), wrong types, values outside their range, rules between keys.
Job load_job(const std::string& path, const std::vector<std::string>& settings = {});
Job parse_job(const std::string& toml, const std::string& path,
              const std::vector<std::string>& settings = {});
// The job of which a checkpoint kept "section.key" -> TOML, its model complete; other keys have their
// defaults, and rules between keys are not asked. `origin` names the file. Untrusted; throws UserError.
Job recorded_job(const std::map<std::string, std::string>& values, const std::string& origin);

// Resolves layout sizes of 0 against a world of `world_size` ranks and checks what then can be checked: the
// product of the axes, batch divisible by data x micro-batch, heads by tensor, and that settings have an
// effect here.
void resolve_layout(Job& job, int64_t world_size);

// "data 2, tensor 2, ZeRO 1": the axes and settings of a resolved layout that are in use.
std::string describe(const LayoutConfig& layout);

// The effective job as TOML, each value with its origin as a comment. Parses back to an equal job.
std::string effective_toml(const Job& job);

// docs/job.md: every key with type, default and meaning, from the table that parses them.
std::string keys_markdown();

// Micro-batches a rank runs in one step: global / (data * micro).
int64_t micro_batches(const Job& job);

// Bytes of a number of one of the formats of [numerics].
int64_t bytes_of_format(const std::string& format);

}  // namespace muster::spec
