#include "verify/matrix_update.h"

#include "base/error.h"
#include "train/optim/orthogonalize.h"
#include "verify/update_equivalence.h"

namespace muster::verify {
namespace {

double norm_of(const at::Tensor& tensor) {
  return tensor.to(at::kDouble).norm().item<double>();
}

}  // namespace

std::vector<Check> matrix_update(const spec::Job& job, const Witness& one,
                                 const std::vector<Witness>& ranks) {
  const Witness& run = ranks.front();
  const int64_t summands = job.training.global_batch_size / job.training.micro_batch_size;
  const double tolerance =
      reduction_tolerance(job, summands) * train::orthogonalize_condition(job.optimizer.newton_schulz_steps);
  const double rounding = reduction_tolerance(job, 0);
  const spec::ParameterTable table(job.model);
  std::vector<Check> checks;
  for (size_t row = 0; row < one.changes.size(); ++row) {
    if (!one.changes[row].defined()) continue;
    const at::Tensor expected = one.changes[row].to(at::kDouble), measured = run.changes[row].to(at::kDouble);
    const double distance = norm_of(measured - expected), size = norm_of(expected);
    const double most = tolerance * size + rounding * norm_of(one.parameters[row]);
    Check check{"muon " + table.rows()[row].name, distance <= most, size, norm_of(measured), tolerance,
                distance / std::max(size, 1e-300)};
    if (!check.passed) check.name += fmt::format(" (distance {:.3g}, at most {:.3g})", distance, most);
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace muster::verify
