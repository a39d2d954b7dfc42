// A small run for tests of what breaks and goes on, and what must be equal of two of them.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/program.h"

namespace muster::test {

// 9 updates over 12 windows of 4 sequences a step: three epochs, shuffled (CASES B019); warm-up of 10 to
// 1e-3, so that update k has k x 1e-4 (CASES B015); two micro-batches accumulated a rank (CASES B017).
constexpr const char* kOptimizer =
    "dropout = 0.1\n[optimizer]\nlearning_rate = 1e-3\nwarmup_steps = 10\nschedule = \"constant\"\n"
    "[checkpoint]\n";

inline std::string nine_steps(const Folder& folder, int every) {
  const std::string job =
      small_job(folder, "llama", kOptimizer + ("every = " + std::to_string(every) + "\n"));
  std::string ids = read_text(folder / "tokens.bin");
  ids.resize(2 * (12 * 24 + 1));
  write_text(folder / "tokens.bin", ids);
  std::string text = read_text(job);
  for (const auto& [from, to] : {std::pair("steps = 6", "steps = 9"),
                                 {"batch_size = 8", "batch_size = 4"},
                                 {"micro_batch_size = 2", "micro_batch_size = 1"}})
    text.replace(text.find(from), std::string(from).size(), to);
  write_text(job, text);
  return job;
}

// The save is over before the next step begins, so that what a kill after it loses is known.
constexpr const char* kAtOnce = " --set checkpoint.async=false";

inline Outcome train(const Folder& folder, const std::string& name, const std::string& more,
                     const std::string& fault = "") {
  return muster("train " + more + " --run " + (folder / name).string(),
                fault.empty() ? "" : "MUSTER_FAULT=" + fault);
}

inline std::string weights(const Folder& folder, const std::string& name) {
  return read_text(folder / (name + "/weights/model.safetensors"));
}

// What must be equal of two runs, step by step.
inline std::vector<Json> trajectory(const Folder& folder, const std::string& name) {
  std::vector<Json> steps;
  for (const Json& m : read_metrics(folder / name))
    steps.push_back({m["step"], m["loss"], m["grad_norm"], m["learning_rate"], m["tokens_seen"]});
  return steps;
}

inline void expect_equal_runs(const Folder& folder, const std::string& one, const std::string& other) {
  EXPECT_EQ(trajectory(folder, one), trajectory(folder, other));
  EXPECT_EQ(weights(folder, one), weights(folder, other));
}

inline fs::path checkpoint(const Folder& folder, const std::string& run, const std::string& name) {
  return folder / (run + "/checkpoints/" + name);
}

inline std::vector<std::string> checkpoints(const Folder& folder, const std::string& run) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / (run + "/checkpoints")))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace muster::test
