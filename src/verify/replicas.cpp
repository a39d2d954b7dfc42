#include "verify/replicas.h"

#include "base/error.h"
#include "spec/mesh/mesh.h"
#include "spec/model/parameter_table.h"

namespace muster::verify {
namespace {

// "ranks 0 and 2 differ": the first two of a group that do; empty where none do.
std::string difference(const std::vector<Witness>& ranks, const spec::Mesh& mesh, spec::Axis axis,
                       size_t row) {
  for (const Witness& rank : ranks) {
    const auto first = static_cast<size_t>(mesh.group(rank.rank, axis).front());
    if (ranks[first].state_hashes.at(row) != rank.state_hashes.at(row))
      return fmt::format("ranks {} and {} differ", first, rank.rank);
  }
  return "";
}

}  // namespace

std::vector<Check> replicas(const spec::Job& job, const std::vector<Witness>& ranks) {
  const spec::Mesh mesh = spec::make_mesh(job.layout);
  const spec::ParameterTable table(job.model);
  std::vector<Check> checks;
  for (spec::Axis axis : mesh.order()) {
    if (mesh.size(axis) == 1) continue;
    for (size_t row = 0; row < table.rows().size(); ++row)
      checks.push_back(
          exactly(fmt::format("replica {} over the {} axis", table.rows()[row].name, spec::to_string(axis)),
                  "", difference(ranks, mesh, axis, row)));
  }
  return checks;
}

}  // namespace muster::verify
