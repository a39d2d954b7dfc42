#include <cstdio>

#include "cli/front/verbs.h"
#include "cli/verb.h"
#include "estimate/kinds/kind.h"

namespace muster::cli {

int estimate(int argc, char** argv) {
  return guarded("estimate", [&] {
    std::fputs(estimate::run({argv + 1, argv + argc}).c_str(), stdout);
    return 0;
  });
}

}  // namespace muster::cli
