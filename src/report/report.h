// A run directory as one self-contained HTML page.
#pragma once
#include <string>

#include "base/file.h"

namespace muster::report {

// Reads RUN/{job.toml, metrics.jsonl, summary.json, trace/record.measured.json, trace/record.rehearsed.json}
// and returns the page: what ran, loss, throughput, memory by category over one step (rehearsed and
// measured), messages, the step in time, where the wall time went. Nothing in it is fetched from anywhere. A
// file that is missing or damaged costs its own section only. UserError where RUN is no folder.
std::string run_page(const fs::path& run_folder);

// run_page() into RUN/report.html; returns that path.
fs::path write_report(const fs::path& run_folder);

}  // namespace muster::report
