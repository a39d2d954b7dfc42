// muster probe: measures this machine into a hardware file.
#include "plan/probe.h"

#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/engine/verbs.h"
#include "cli/job_options.h"
#include "cli/verb.h"

namespace muster::cli {
namespace {

constexpr const char* kHelp =
    "Measures what this machine can do and writes it as the hardware named \"local\", against which MFU is "
    "told.\n"
    "Run it while nothing else runs.\n\n"
    "  muster probe\n"
    "  muster probe --to my-host.toml";

int measure(std::string to, bool json) {
  if (to.empty()) to = spec::local_hardware_path();
  if (to.empty())
    throw UserError({"--to", "", "is needed: neither HOME nor XDG_CONFIG_HOME says where settings stand",
                     "name the file to write"});
  const Log log;
  log.info("measuring, about ten seconds on an idle machine");
  const spec::Hardware hardware = plan::probe([&](const std::string& line) { log.info("{}", line); });
  fs::create_directories(fs::absolute(to).parent_path());
  write_text(to, plan::to_toml(hardware));
  log.info("written to {}", to);
  if (json)
    std::printf("%s\n",
                Json{{"file", to},
                     {"peak_flops", hardware.peak_flops},
                     {"memory_bytes", hardware.memory_bytes},
                     {"memory_bandwidth_bytes_per_second", hardware.memory_bandwidth_bytes_per_second}}
                    .dump(1)
                    .c_str());
  return 0;
}

}  // namespace

int probe(int argc, char** argv) {
  std::string to;
  bool json = false;
  CLI::App app(kHelp, "muster probe");
  app.add_option("--to", to, "the file to write (default: the one that hardware \"local\" reads)");
  app.add_flag("--json", json, "one JSON object on stdout");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  return guarded("probe", [&] { return measure(to, json); });
}

}  // namespace muster::cli
