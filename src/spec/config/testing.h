// What the tests of jobs share.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "spec/config/value.h"

namespace muster::spec {

inline constexpr const char* kSmallModel = R"([model]
family = "llama"
vocab_size = 512
hidden_size = 64
num_hidden_layers = 2
num_attention_heads = 4
intermediate_size = 176
)";

// A job that is right, with more text after its model.
inline Job small_job(const std::string& more = "", const std::vector<std::string>& settings = {}) {
  return parse_job(kSmallModel + more, "job.toml", settings);
}

template <class Make>
std::vector<Problem> problems_in(Make&& make) {
  try {
    make();
  } catch (const UserError& error) {
    return error.problems();
  }
  return {};
}

inline std::vector<Problem> problems_of(const std::string& more,
                                        const std::vector<std::string>& settings = {}) {
  return problems_in([&] { small_job(more, settings); });
}

// Every value of a job, for comparing two.
inline std::string values_of(Job job) {
  std::string text;
  for (const Field& field : fields())
    if (field.in) text += field.name() + " = " + to_toml(field, job) + "\n";
  return text;
}

}  // namespace muster::spec
