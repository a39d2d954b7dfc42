// `muster report RUN`: the page of a run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "cli/front/verbs.h"
#include "cli/job_options.h"
#include "cli/verb.h"
#include "report/report.h"
#include "telemetry/run_summary.h"

namespace muster::cli {
namespace {

int run(const fs::path& folder, bool json) {
  if (!fs::exists(folder / "job.toml"))
    throw UserError({"RUN", folder.string(), "is not the folder of a run: it has no job.toml",
                     "name the folder that `muster train --run` wrote"});
  const fs::path file = report::write_report(folder);
  const auto summary = telemetry::read_run_summary(folder / "summary.json");
  if (json) {
    fmt::print("{}\n",
               Json{{"report", file.string()}, {"summary", summary ? to_json(*summary) : Json()}}.dump());
    return 0;
  }
  fmt::print("{}\n\n{}", file.string(),
             summary ? summary_table(*summary) : "no summary.json yet: the run goes on, or was killed\n");
  return 0;
}

}  // namespace

int report(int argc, char** argv) {
  CLI::App app(
      "Writes RUN/report.html, one self-contained page, and prints where it is and the run's summary.\n"
      "Example: muster report runs/demo-1",
      "muster report");
  std::string folder;
  bool json = false;
  app.add_option("RUN", folder, "the folder of a run, as `muster train` writes it")->required();
  app.add_flag("--json", json,
               "print one object: report (path), summary (as in summary.json; null while there is none)");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  return guarded("report", [&] { return run(folder, json); });
}

}  // namespace muster::cli
