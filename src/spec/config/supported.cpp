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
constexpr const char* kOneFormat =
    "use float32 or float64 for compute, parameters, gradients and optimizer alike";

bool is_plain(const std::string& format) {
  return format == "float32" || format == "float64";
}
bool mixed(const NumericsConfig& numerics, const std::string& format) {
  return is_plain(numerics.compute) && format != numerics.compute;
}

constexpr NotBuilt kNotBuilt[] = {
    {"layout.pipeline", [](const Job& j) { return j.layout.pipeline > 1; }, "pipeline parallelism",
     kOnlyBuilt},
    {"layout.chunks", [](const Job& j) { return j.layout.chunks > 1; }, "several chunks a stage", kOnlyBuilt},
    {"layout.expert", [](const Job& j) { return j.layout.expert > 1; }, "a model with experts",
     "leave it out"},
    {"layout.offload", [](const Job& j) { return j.layout.offload != "none" && j.training.device == "cuda"; },
     "the optimizer's state off a CUDA device (training.device = cuda)", "use offload = \"none\""},
    {"numerics.compute", [](const Job& j) { return !is_plain(j.numerics.compute); }, "low precision",
     kOneFormat},
    {"numerics.parameters", [](const Job& j) { return mixed(j.numerics, j.numerics.parameters); },
     "another format than compute's", kOneFormat},
    {"numerics.gradients", [](const Job& j) { return mixed(j.numerics, j.numerics.gradients); },
     "another format than compute's", kOneFormat},
    {"numerics.optimizer",
     [](const Job& j) {
       const bool is_built = j.numerics.optimizer == "bfloat16" && j.optimizer.name == "adamw";
       return mixed(j.numerics, j.numerics.optimizer) && !is_built;
     },
     "another format than compute's, but bfloat16 with optimizer.name = adamw", kOneFormat},
    {"numerics.master", [](const Job& j) { return j.numerics.master != "none"; }, "master parameters",
     "use master = \"none\""},
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
