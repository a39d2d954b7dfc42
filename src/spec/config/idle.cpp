// Settings without effect. Each row names a key, when it does nothing, why, and the value that asks for
// nothing (empty: any given value asks for something).
#include <algorithm>

#include "spec/config/rules.h"
#include "spec/config/value.h"

namespace muster::spec {
namespace {

struct Idle {
  const char* name;
  bool (*is_idle)(const Job&);
  const char* reason;
  const char* off = "";
};

bool sgd(const Job& job) {
  return job.optimizer.name == "sgd";
}
bool stateless(const Job& job) {
  return sgd(job) && job.optimizer.momentum == 0;
}
bool no_state_file(const Job& job) {
  return job.layout.offload != "file";
}
bool adamw(const Job& job) {
  return job.optimizer.name == "adamw";
}
bool not_muon(const Job& job) {
  return job.optimizer.name != "muon";
}
bool constant(const Job& job) {
  return job.optimizer.schedule == "constant";
}
bool not_wsd(const Job& job) {
  return job.optimizer.schedule != "wsd";
}
bool not_jsonl(const Job& job) {
  return job.data.format != "jsonl";
}
bool one_tensor(const Job& job) {
  return job.layout.tensor == 1;
}
bool one_context(const Job& job) {
  return job.layout.context == 1;
}
bool one_stage(const Job& job) {
  return job.layout.pipeline == 1;
}
bool no_shards(const Job& job) {
  return job.layout.zero == 0;
}
bool whole_values(const Job& job) {
  return job.layout.zero < 3;
}
bool whole_gradients(const Job& job) {
  return job.layout.zero < 2;
}
bool wide_parameters(const Job& job) {
  return bytes_of_format(job.numerics.parameters) >= 4;
}
bool gpt2(const Job& job) {
  return job.model.family == Family::gpt2;
}
// An explicit 0 says "never", and what stands beside it waits; no word at all is a forgotten key.
bool no_evaluation(const Job& job) {
  return job.training.evaluate_every == 0 && !is_given(job, "training.evaluate_every");
}
bool no_checkpoints(const Job& job) {
  return !job.checkpoint.is_on() && !is_given(job, "checkpoint.every") &&
         !is_given(job, "checkpoint.every_minutes") && !is_given(job, "checkpoint.adaptive");
}
bool no_async(const Job& job) {
  return no_checkpoints(job) || !job.checkpoint.async;
}
bool not_adaptive(const Job& job) {
  return !job.checkpoint.adaptive && !is_given(job, "checkpoint.adaptive");
}

constexpr const char* kNoCheckpoints = "neither checkpoint.every nor every_minutes nor adaptive is given";

bool one_unit_a_bucket(const Job& job) {
  return job.layout.zero == 3;
}

constexpr Idle kIdle[] = {
    {"training.bucket_bytes", one_unit_a_bucket,
     "layout.zero is 3, where each unit is gathered and reduced by itself", "0"},
    {"optimizer.betas", sgd, "optimizer.name is not adamw or muon, which have moments"},
    {"optimizer.eps", sgd, "optimizer.name is not adamw or muon, which have it"},
    {"optimizer.momentum", adamw, "optimizer.name is not sgd or muon, which have it; adamw has betas", "0.0"},
    {"optimizer.nesterov", not_muon, "optimizer.name is not muon, which has it", "true"},
    {"optimizer.newton_schulz_steps", not_muon, "optimizer.name is not muon, which has them", "5"},
    {"optimizer.minimum_learning_rate", constant, "optimizer.schedule is constant", "0.0"},
    {"optimizer.decay_steps", not_wsd, "optimizer.schedule is not wsd, which has a decay of its own length",
     "0"},
    {"data.text_key", not_jsonl, "data.format is not jsonl, which has keys"},
    {"data.on_bad_line", not_jsonl, "data.format is not jsonl, whose lines can be bad"},
    {"data.validation_path", no_evaluation, "training.evaluate_every is not given, so nothing is evaluated"},
    {"training.evaluate_batches", no_evaluation,
     "training.evaluate_every is not given, so nothing is evaluated"},
    {"layout.sequence_parallel", one_tensor,
     "it splits the sequence in the tensor group, and layout.tensor is 1", "false"},
    {"layout.context_method", one_context, "layout.context is 1"},
    {"layout.schedule", one_stage, "layout.pipeline is 1"},
    {"layout.chunks", one_stage, "layout.pipeline is 1", "1"},
    {"layout.replicate", no_shards, "layout.zero is 0, so nothing is sharded and every rank is a replica",
     "1"},
    {"layout.prefetch", whole_values, "layout.zero is below 3, so no parameters are gathered unit by unit",
     "1"},
    {"layout.keep_after_forward", whole_values, "layout.zero is below 3, where parameters stay whole",
     "false"},
    {"layout.reduce_every", whole_gradients,
     "layout.zero is below 2, where gradients stay whole and are reduced once a step"},
    {"layout.offload", stateless, "optimizer.name is sgd without momentum, which has no state", "\"none\""},
    {"layout.offload_path", no_state_file, "layout.offload is not file, which has one", "\"\""},
    {"numerics.master", wide_parameters, "numerics.parameters is as wide", "\"none\""},
    {"checkpoint.keep", no_checkpoints, kNoCheckpoints},
    {"checkpoint.async", no_checkpoints, kNoCheckpoints},
    {"checkpoint.contract", no_checkpoints, kNoCheckpoints},
    {"checkpoint.grace_seconds", no_async,
     "a save that stops the run anyway is not given up: checkpoint.every is not given, or checkpoint.async "
     "is off"},
    {"checkpoint.hours_between_interruptions", not_adaptive, "checkpoint.adaptive is not on", "0.0"},
    {"model.rope_theta", gpt2, "model.family is gpt2, which learns its positions"},
    {"model.rope_scaling", gpt2, "model.family is gpt2, which learns its positions",
     "{ rope_type = \"none\" }"},
    {"model.attention_bias", gpt2, "model.family is gpt2, which always has biases", "false"},
};

}  // namespace

std::string idle_reason(const Job& job, const std::string& name) {
  const auto* row = std::ranges::find_if(kIdle, [&](const Idle& idle) { return name == idle.name; });
  return row != std::end(kIdle) && row->is_idle(job) ? row->reason : "";
}

void check_idle(Rules& rules) {
  Job job = rules.job();
  for (const Idle& idle : kIdle) {
    if (!is_given(job, idle.name) || !idle.is_idle(job)) continue;
    if (to_toml(field_named(idle.name), job) == idle.off) continue;
    rules.require(false, {idle.name}, fmt::format("has no effect: {}", idle.reason),
                  fmt::format("leave it out, or --set {}=default", idle.name));
  }
}

}  // namespace muster::spec
