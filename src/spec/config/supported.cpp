// What a job can describe and this program cannot run yet. Whoever builds one of these takes its row away.
#include "spec/config/rules.h"

namespace muster::spec {
namespace {

struct NotBuilt {
  const char* name;
  bool (*is_asked)(const Job&);
  const char* what;
  const char* remedy;
};

constexpr const char* kOnlyBuilt = "leave it out: the data, tensor and context axes are the ones built";
constexpr const char* kAsCompute = "leave it out: it follows numerics.compute";

// Another format than compute's, and in low precision than float32.
bool is_mixed(const NumericsConfig& numerics, const std::string& format) {
  const bool is_low = bytes_of_format(numerics.compute) < 4;
  return format != numerics.compute && !(is_low && format == "float32");
}

constexpr NotBuilt kNotBuilt[] = {
    {"layout.pipeline", [](const Job& j) { return j.layout.pipeline > 1; }, "pipeline parallelism",
     kOnlyBuilt},
    {"layout.chunks", [](const Job& j) { return j.layout.chunks > 1; }, "several chunks a stage", kOnlyBuilt},
    {"layout.expert", [](const Job& j) { return j.layout.expert > 1; }, "a model with experts",
     "leave it out"},
    {"layout.offload", [](const Job& j) { return j.layout.offload != "none" && j.training.device == "cuda"; },
     "the optimizer's state off a CUDA device (training.device = cuda)", "use offload = \"none\""},
    {"numerics.compute", [](const Job& j) { return j.numerics.compute == "float16"; },
     "float16, which wants its losses scaled", "use bfloat16"},
    {"numerics.parameters", [](const Job& j) { return j.numerics.parameters != j.numerics.compute; },
     "another format than compute's", kAsCompute},
    {"numerics.gradients", [](const Job& j) { return is_mixed(j.numerics, j.numerics.gradients); },
     "another format than compute's or, of bfloat16, float32", kAsCompute},
    {"numerics.gradients",
     [](const Job& j) { return j.optimizer.name == "muon" && j.numerics.gradients == "bfloat16"; },
     "Muon of bfloat16 gradients", "use gradients = \"float32\""},
    {"numerics.optimizer",
     [](const Job& j) {
       if (j.numerics.optimizer == "bfloat16") return j.optimizer.name != "adamw";
       return is_mixed(j.numerics, j.numerics.optimizer);
     },
     "another format than compute's, or float32 in bfloat16, but bfloat16 with optimizer.name = adamw",
     kAsCompute},
    {"numerics.recipe", [](const Job& j) { return j.numerics.recipe != "none"; }, "recipes",
     "use recipe = \"none\""},
};

}  // namespace

void check_supported(Rules& rules) {
  for (const NotBuilt& row : kNotBuilt)
    rules.require(!row.is_asked(rules.job()), {row.name}, fmt::format("not built yet: {}", row.what),
                  row.remedy);
}

std::vector<std::string> not_built() {
  std::vector<std::string> lines;
  for (const NotBuilt& row : kNotBuilt) lines.push_back(fmt::format("`{}`: {}", row.name, row.what));
  return lines;
}

}  // namespace muster::spec
