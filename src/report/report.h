// A run directory as one self-contained HTML page.
#pragma once
#include <string>

#include "base/file.h"

namespace muster::report {

// Reads RUN/{job.toml, metrics.jsonl, summary.json, record.measured.json, record.rehearsed.json} and returns
// the page: what ran, loss, throughput, memory by category over one step (rehearsed and measured), messages,
// the step's trace. No network, no scripts from elsewhere.
std::string run_page(const fs::path& run_folder);

}  // namespace muster::report
