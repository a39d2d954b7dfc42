// The options that every verb on a job takes: JOB, --set, --json; and one way to read a command line.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "spec/config/job.h"

namespace muster::cli {

struct JobOptions {
  std::string path;
  std::vector<std::string> settings;
  bool json = false;

  spec::Job load() const { return spec::load_job(path, settings); }
};

// JOB is required unless `is_required` is false (a verb with another way to be called).
inline void add_job_options(CLI::App& app, JobOptions& options, bool is_required = true) {
  app.add_option("JOB", options.path, "the job, a TOML file (docs/job.md)")->required(is_required);
  app.add_option("--set", options.settings, "section.key=value, over what the file says; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  app.add_flag("--json", options.json, "one JSON object on stdout");
}

// Reads the command line of a verb (argv[0] is the verb). Holds an exit status when the verb is done: 0 after
// --help, 2 after a wrong option, which has been explained.
inline std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
}

}  // namespace muster::cli
