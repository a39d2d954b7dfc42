// What the verbs share that run as many ranks: how many, the command line of one, and how one ends.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "cli/job_options.h"
#include "comm/communicator.h"

namespace muster::cli {

// The ranks that --procs names, or that the layout multiplies to.
int64_t ranks_of(int64_t procs, const spec::LayoutConfig& layout);
// "muster VERB JOB OPTION VALUE" with the user's settings: what each rank is started with.
std::vector<std::string> worker_arguments(const std::string& verb, const JobOptions& job,
                                          const std::string& option, const std::string& value);
// The status of `rank`, one of many. What it throws is logged with its number; then the process leaves as it
// is, since peers that are gone cannot be waited for.
int as_one_of_many(const comm::World& world, const std::function<int()>& rank);

}  // namespace muster::cli
