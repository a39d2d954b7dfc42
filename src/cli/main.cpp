// `muster VERB ...`. This program is small and starts in a millisecond; verbs that need torch are run by the
// engine, a shared library beside it, loaded when such a verb is asked for.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/version.h"
#include "cli/front/verbs.h"
#include "cli/verb.h"

namespace muster::cli {
namespace {

constexpr Verb kFrontVerbs[] = {
    {"doctor", "check a job: every value with where it came from, and the mesh", doctor},
    {"estimate", "memory, collectives, pipelines, checkpoints and more by closed formulas, with sources",
     estimate},
    {"report", "a run as one self-contained HTML page, and its summary", report},
    {"data", "tokenize and look into data sets", data},
};

struct EngineVerb {
  const char* name;
  const char* summary;
};
constexpr EngineVerb kEngineVerbs[] = {
    {"train", "train a job: local processes, or one rank under torchrun or srun"},
    {"rehearse", "every byte, FLOP and message of a rank, without running it"},
    {"verify", "prove that the sharded run computes the same update, bytes and messages"},
    {"convert", "weights in and out of Hugging Face's format"},
    {"inspect", "the checkpoints of a run, and whether one is whole"},
    {"probe", "measure this machine into a hardware file"},
    {"sample", "generate text from a run or from imported weights"},
};

void print_help() {
  std::printf("usage: muster VERB ...       (muster VERB --help explains one; muster --version)\n\n");
  for (const Verb& verb : kFrontVerbs) std::printf("  %-10s %s\n", verb.name, verb.summary);
  for (const EngineVerb& verb : kEngineVerbs) std::printf("  %-10s %s\n", verb.name, verb.summary);
}

// A file of ours must not become someone's closed stdout; and a reader that goes away is no reason to stop
// training.
void settle_descriptors() {
  while (true) {
    const int fd = open("/dev/null", O_RDWR);
    if (fd > 2) close(fd);
    if (fd > 2 || fd < 0) break;
  }
  signal(SIGPIPE, SIG_IGN);
}

// What was asked for and could not be written is no success.
int written(int status) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
  std::fprintf(stderr, "muster: stdout cannot be written: %s\n", std::strerror(errno));
  return status == 0 ? 1 : status;
}

int run_in_engine(int argc, char** argv) {
  // libgomp reads this when it loads: idle threads must not spin on cores that another rank needs.
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  const auto beside = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libmuster_engine.so";
  void* engine = dlopen(beside.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!engine) {
    std::fprintf(stderr, "muster: cannot load the engine: %s\n", dlerror());
    return 1;
  }
  auto* run = reinterpret_cast<int (*)(int, char**)>(dlsym(engine, "muster_engine_run"));
  const int status = written(run(argc, argv));
  // Leaves without running torch's static destructors: its threads may still be at work, and everything of
  // ours is closed.
  std::fflush(nullptr);
  std::_Exit(status);
}

int dispatch(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "--help";
  for (const Verb& verb : kFrontVerbs)
    if (std::strcmp(verb.name, name) == 0) return written(verb.run(argc - 1, argv + 1));
  for (const EngineVerb& verb : kEngineVerbs)
    if (std::strcmp(verb.name, name) == 0) return run_in_engine(argc - 1, argv + 1);
  if (std::strcmp(name, "--help") == 0 || std::strcmp(name, "-h") == 0 || std::strcmp(name, "help") == 0) {
    print_help();
    return argc > 1 ? 0 : 2;
  }
  if (std::strcmp(name, "--version") == 0) {
    std::printf("muster %s\n", kVersion);
    return 0;
  }
  std::fprintf(stderr, "muster: no verb named '%s'; `muster --help` lists them\n", name);
  return 2;
}

}  // namespace
}  // namespace muster::cli

int main(int argc, char** argv) {
  muster::cli::settle_descriptors();
  return muster::cli::dispatch(argc, argv);
}
