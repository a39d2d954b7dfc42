#include <fmt/format.h>

#include "report/html.h"
#include "report/report.h"
#include "report/sections.h"
#include "report/style.h"

namespace muster::report {
namespace {

// Forbids the page to fetch anything, whatever a run's files may hold.
constexpr const char* kPolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

std::string footer(const RunFiles& run) {
  const std::string version = run.summary ? " " + run.summary->muster_version : "";
  return fmt::format(
      "<footer>Written by muster{}. Bytes are exact; KiB, MiB and GiB are powers of 1024. A matmul of m×k by "
      "k×n "
      "is 2mkn FLOPs.</footer>",
      escape(version));
}

}  // namespace

std::string run_page(const fs::path& run_folder) {
  const RunFiles run = read_run(run_folder);
  const std::string body = title_and_cards(run) + loss_section(run) + speed_section(run) +
                           memory_section(run) + messages_section(run) + step_section(run) +
                           time_section(run) + what_ran_section(run) + files_section(run) + footer(run);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{} · muster</title>"
      "<style>{}</style></head>\n<body><main>\n{}</main><script>{}</script></body></html>\n",
      kPolicy, escape(run.name), kStyleSheet, body, kHoverScript);
}

fs::path write_report(const fs::path& run_folder) {
  const fs::path file = run_folder / "report.html";
  write_text(file, run_page(run_folder));
  return file;
}

}  // namespace muster::report
