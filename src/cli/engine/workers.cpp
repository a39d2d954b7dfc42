#include "cli/engine/workers.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "launch/local_ranks.h"

namespace muster::cli {

int64_t ranks_of(int64_t procs, const spec::LayoutConfig& layout) {
  if (procs > 0) return procs;
  return std::max<int64_t>(1, layout.data) * layout.tensor * layout.context * layout.pipeline;
}

std::vector<std::string> worker_arguments(const std::string& verb, const JobOptions& job,
                                          const std::string& option, const std::string& value) {
  std::vector<std::string> arguments{"muster", verb, job.path, option, value};
  for (const std::string& setting : job.settings) arguments.insert(arguments.end(), {"--set", setting});
  return arguments;
}

int as_one_of_many(const comm::World& world, const std::function<int()>& rank) {
  try {
    return rank();
  } catch (const std::exception& error) {
    Log(fmt::format("rank {}", world.rank)).error("{}", error.what());
    launch::leave(launch::exit_status(error));
  }
}

}  // namespace muster::cli
