#include "verify/diagnosis.h"

#include <cmath>

#include "base/error.h"
#include "spec/mesh/local_shape.h"
#include "spec/model/parameter_table.h"

namespace muster::verify {
namespace {

double square(double x) {
  return x * x;
}

double squares_of(const at::Tensor& tensor) {
  return square(tensor.to(at::kDouble).norm().item<double>());
}

// The axes with `size` ranks: "data or tensor axis".
std::string axes_of(const spec::Mesh& mesh, int64_t size) {
  std::string text;
  for (spec::Axis axis : mesh.order())
    if (mesh.size(axis) == size) text += (text.empty() ? "" : " or ") + spec::to_string(axis);
  return text + " axis";
}

bool is_multiple(const at::Tensor& expected, const at::Tensor& measured, double factor, double tolerance) {
  const at::Tensor scaled = expected.to(at::kDouble) * factor;
  return squares_of(measured.to(at::kDouble) - scaled) <= square(tolerance) * squares_of(scaled);
}

}  // namespace

std::string diagnose_sum(const spec::LayoutConfig& layout, const at::Tensor& expected,
                         const at::Tensor& measured, double tolerance) {
  const spec::Mesh mesh = spec::make_mesh(layout);
  for (spec::Axis axis : mesh.order()) {
    const int64_t size = mesh.size(axis);
    if (size == 1) continue;
    const auto factor = static_cast<double>(size);
    if (is_multiple(expected, measured, factor, tolerance))
      return fmt::format("{} times what it should be: added up over the {}, whose ranks have the whole", size,
                         axes_of(mesh, size));
    if (is_multiple(expected, measured, 1 / factor, tolerance))
      return fmt::format("a {}th of what it should be, as if it were divided over the {}", size,
                         axes_of(mesh, size));
  }
  return "";
}

std::string diagnose_norm(const spec::Job& job, const Witness& expected, double measured_norm,
                          double tolerance) {
  const spec::Mesh mesh = spec::make_mesh(job.layout);
  const spec::ParameterTable table(job.model);
  const double excess = square(measured_norm) - square(expected.grad_norm);
  // Both norms are off by the tolerance at most.
  const double room = 4 * tolerance * square(measured_norm);
  for (spec::Axis axis : mesh.order()) {
    const auto more = static_cast<double>(mesh.size(axis) - 1);
    if (more == 0) continue;
    const auto explains = [&](double squares) {
      return more * squares > room && std::abs(excess - more * squares) <= room;
    };
    double alike = 0;
    for (size_t row = 0; row < table.rows().size(); ++row) {
      const double squares = squares_of(expected.gradients[row]);
      if (!spec::is_split(table.rows()[row], mesh, axis)) alike += squares;
      if (explains(squares))
        return fmt::format("counts {} {} times, once a rank of the {} axis", table.rows()[row].name,
                           mesh.size(axis), spec::to_string(axis));
    }
    if (explains(alike))
      return fmt::format("counts what all ranks of the {} axis hold {} times", spec::to_string(axis),
                         mesh.size(axis));
  }
  return "";
}

}  // namespace muster::verify
