// A verb of the command line. Exit status: 0 success alone, 1 a failure of the world, 2 a wrong request, 70 a
// bug, 76 where another start has taken the run over.
#pragma once
#include <functional>

namespace muster::cli {

constexpr int kExitFenced = 76;  // as launch/local_ranks.h has it, which the small program cannot see

struct Verb {
  const char* name;
  const char* summary;
  int (*run)(int argc, char** argv);  // argv[0] is the verb
};

// Runs a verb's body; an exception becomes one clear message on stderr and its exit status.
int guarded(const char* verb, const std::function<int()>& body);

}  // namespace muster::cli
