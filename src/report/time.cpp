// Where the wall-clock time of the whole run went.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "report/html.h"
#include "report/sections.h"

namespace muster::report {
namespace {

struct Part {
  const char* name;
  const char* css_class;
  double seconds;
};

std::vector<Part> parts_of(const telemetry::RunSummary& summary) {
  const telemetry::LostTime& lost = summary.lost_seconds;
  std::vector<Part> parts = {{"start-up", "time-start", lost.start_up},
                             {"data wait", "time-data", lost.data_wait},
                             {"exposed communication", "time-communication", lost.exposed_communication},
                             {"evaluation", "time-evaluation", lost.evaluation},
                             {"checkpoints", "time-checkpoints", lost.checkpoints}};
  if (summary.state_file) parts.push_back({"optimizer state's file", "time-state-file", lost.state_file});
  double rest = summary.wall_seconds;
  for (const Part& part : parts) rest -= part.seconds;
  parts.insert(parts.begin(), {"computing steps", "time-steps", std::max(0.0, rest)});
  return parts;
}

std::string state_file_line(const telemetry::RunSummary& summary) {
  if (!summary.state_file) return "";
  const telemetry::StateFileFigures& file = *summary.state_file;
  return fmt::format(
      "<p>The optimizer's state of rank 0 is in a file ({}): {} read and {} written, at {}/s while a "
      "transfer was "
      "under way ({} of the wall); updates stood still for it {}.</p>",
      escape(summary.state_file_how), format_bytes(file.read_bytes), format_bytes(file.written_bytes),
      format_bytes(static_cast<int64_t>(file.bytes_per_second())), format_seconds(file.busy_seconds),
      format_seconds(file.exposed_seconds));
}

}  // namespace

std::string time_section(const RunFiles& run) {
  const std::string lead = "The wall-clock time of rank 0, from the start of its process to its end.";
  if (!run.summary)
    return section("time", "Where the time went", lead, missing(run.problems.at("summary.json")));
  const double wall = run.summary->wall_seconds;
  if (!(wall > 0))
    return section("time", "Where the time went", lead, missing("summary.json holds no wall time."));
  std::string bar;
  std::vector<std::vector<std::string>> rows;
  for (const Part& part : parts_of(*run.summary)) {
    bar += fmt::format("<i class=\"{}\" style=\"width:{:.3f}%\" title=\"{} {}\"></i>", part.css_class,
                       100 * part.seconds / wall, part.name, format_seconds(part.seconds));
    rows.push_back({fmt::format("<i class=\"swatch {}\"></i>{}", part.css_class, part.name),
                    format_seconds(part.seconds), percent(part.seconds / wall)});
  }
  return section("time", "Where the time went", lead,
                 "<div class=\"time-bar\">" + bar + "</div>" + html_table({"", "time", "share"}, rows, 1) +
                     state_file_line(*run.summary));
}

}  // namespace muster::report
