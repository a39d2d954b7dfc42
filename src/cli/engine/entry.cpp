// The engine's one entry: runs a verb that needs torch.
#include <cstring>

#include "cli/engine/verbs.h"
#include "cli/verb.h"
#include "device/ledger.h"

namespace muster::cli {
namespace {

constexpr Verb kVerbs[] = {
    {"convert", "", convert}, {"inspect", "", inspect}, {"probe", "", probe},   {"rehearse", "", rehearse},
    {"sample", "", sample},   {"train", "", train},     {"verify", "", verify},
};

}  // namespace
}  // namespace muster::cli

extern "C" __attribute__((visibility("default"))) int muster_engine_run(int argc, char** argv) {
  muster::device::install_ledgers();
  for (const muster::cli::Verb& verb : muster::cli::kVerbs)
    if (std::strcmp(verb.name, argv[0]) == 0) return verb.run(argc, argv);
  return 70;
}
