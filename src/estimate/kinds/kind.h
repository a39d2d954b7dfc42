// What `muster estimate` can be asked, and its answers.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "estimate/kinds/options.h"

namespace muster::estimate {

// The same answer twice: one documented object, and aligned tables with their sentences.
struct Answer {
  Json json;
  std::string text;
};

struct Kind {
  const char* name;
  const char* summary;
  std::span<const OptionRow> options;
  const char* examples;                // worked: commands with what they print
  Answer (*answer)(Options& options);  // throws UserError
};

std::span<const Kind> kinds();

Answer memory_answer(Options& options);
Answer collective_answer(Options& options);
Answer pipeline_answer(Options& options);
Answer checkpoint_answer(Options& options);
Answer straggler_answer(Options& options);
Answer throughput_answer(Options& options);
Answer batch_answer(Options& options);

// What `muster estimate WORDS...` puts on stdout: help, tables, or with --json the object. Throws UserError
// with everything wrong in the request.
std::string run(const std::vector<std::string>& words);

}  // namespace muster::estimate
