#include "verify/update_equivalence.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "spec/model/parameter_table.h"
#include "verify/diagnosis.h"

namespace muster::verify {
namespace {

constexpr double kOtherOrders = 64, kCancellation = 2, kRoundingsOfALayer = 24;
// A factor is looked for in what is wrong already: it may be a little less exact.
constexpr double kFactorRoom = 10;

void explain(Check& check, const std::string& why) {
  if (!why.empty()) check.name += ": " + why;
}

double norm_of(const at::Tensor& tensor) {
  return tensor.to(at::kDouble).norm().item<double>();
}

// The distance of two tensors, as a share of `scale`.
Check near(const std::string& name, const at::Tensor& expected, const at::Tensor& measured, double scale,
           double tolerance) {
  const double distance = norm_of(measured.to(at::kDouble) - expected.to(at::kDouble));
  Check check{name,      distance <= tolerance * scale,     norm_of(expected), norm_of(measured),
              tolerance, distance / std::max(scale, 1e-300)};
  if (!check.passed) check.name += fmt::format(" (relative distance {:.3g})", *check.distance);
  return check;
}

}  // namespace

double reduction_tolerance(const spec::Job& job, int64_t summands) {
  const double sums = static_cast<double>(summands) + kOtherOrders;
  const auto layers = static_cast<double>(job.model.num_hidden_layers);
  if (job.numerics.compute == "bfloat16")
    return 0x1p-8 * std::sqrt(kRoundingsOfALayer * layers + sums) * kCancellation;
  return (job.numerics.compute == "float64" ? 0x1p-53 : 0x1p-24) * sums * kCancellation;
}

std::vector<Check> update_equivalence(const spec::Job& job, const Witness& one,
                                      const std::vector<Witness>& ranks) {
  const Witness& run = ranks.front();
  const int64_t summands = job.training.global_batch_size / job.training.micro_batch_size;
  const double tolerance = reduction_tolerance(job, summands);
  const spec::ParameterTable table(job.model);
  std::vector<Check> checks;
  checks.push_back(exactly("tokens", one.tokens, run.tokens));
  checks.push_back(closely("loss", one.loss, run.loss, tolerance));
  checks.push_back(closely("norm", one.grad_norm, run.grad_norm, tolerance));
  if (!checks.back().passed) explain(checks.back(), diagnose_norm(job, one, run.grad_norm, tolerance));
  for (size_t row = 0; row < table.rows().size(); ++row) {
    const double scale = std::max(norm_of(one.gradients[row]), one.grad_norm / 100);
    checks.push_back(
        near("gradient " + table.rows()[row].name, one.gradients[row], run.gradients[row], scale, tolerance));
    if (checks.back().passed) continue;
    const std::string factor =
        diagnose_sum(job.layout, one.gradients[row], run.gradients[row], tolerance * kFactorRoom);
    explain(checks.back(), factor.empty() ? suspect_axes(job.layout) : factor);
  }
  for (size_t row = 0; row < table.rows().size(); ++row)
    checks.push_back(near("update " + table.rows()[row].name, one.parameters[row], run.parameters[row],
                          norm_of(one.parameters[row]) + one.grad_norm / 100, tolerance));
  return checks;
}

}  // namespace muster::verify
