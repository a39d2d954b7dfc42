// The program as a user runs it, for tests: a command line in, exit status and output out.
#pragma once
#include <stdlib.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace muster::test {

// A folder that goes with its test.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "muster-test-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct Outcome {
  int status = -1;  // exit status, or 128 + signal
  std::string out, err;
};

inline Outcome run(const std::string& command) {
  const Folder folder;
  const std::string out = (folder / "out").string(), err = (folder / "err").string();
  const int status = std::system(("( " + command + " ) >" + out + " 2>" + err + " </dev/null").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(out), read_text(err)};
}

// build/muster with arguments, one thread a rank; `before` are variables, "NAME=value".
inline Outcome muster(const std::string& arguments, const std::string& before = "") {
  return run(before + " " + std::string(BINARY_ROOT) + "/muster " + arguments);
}

// Whether `make soak` runs the test: then it tries all that it can.
inline bool is_soak() {
  return std::getenv("MUSTER_SOAK") != nullptr;
}

inline std::string reference(const std::string& name) {
  const fs::path path = fs::path(SOURCE_ROOT) / ".." / "shared" / "reference" / name;
  if (!fs::exists(path))
    throw std::runtime_error("the reference data is not beside the checkout: " + path.string());
  return path.string();
}

inline std::vector<Json> read_metrics(const fs::path& run_folder) {
  std::vector<Json> steps;
  const std::string text = read_text(run_folder / "metrics.jsonl");
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    steps.push_back(Json::parse(text.substr(at, end - at)));
    at = end + 1;
  }
  return steps;
}

// A small job in `folder`: `ids` token ids below 64 in tokens.bin, and job.toml of a family.
inline std::string small_job(const Folder& folder, const std::string& family, const std::string& more = "") {
  std::string ids;
  uint32_t state = 12345;
  for (int at = 0; at < 4000; ++at) {
    state = state * 1664525u + 1013904223u;
    ids += static_cast<char>(state >> 26);
    ids += '\0';
  }
  write_text(folder / "tokens.bin", ids);
  std::string model = "family = \"" + family +
                      "\"\nvocab_size = 64\nhidden_size = 32\nnum_hidden_layers = 3\n"
                      "num_attention_heads = 4\nmax_position_embeddings = 64\n";
  if (family == "llama") model += "num_key_value_heads = 2\nintermediate_size = 48\n";
  write_text(folder / "job.toml",
             "[model]\n" + model +
                 "[data]\npath = \"tokens.bin\"\nformat = \"uint16\"\nsequence_length = 24\n"
                 "[training]\nsteps = 6\nglobal_batch_size = 8\nmicro_batch_size = 2\nthreads = 1\n" +
                 more);
  return (folder / "job.toml").string();
}

}  // namespace muster::test
