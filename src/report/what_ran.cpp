#include <fmt/format.h>

#include "base/units.h"
#include "report/html.h"
#include "report/sections.h"

namespace muster::report {
namespace {

using telemetry::RunSummary;

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string pair_list(std::string_view title, const Pairs& pairs) {
  std::string rows;
  for (const auto& [name, value] : pairs)
    rows += fmt::format("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value.empty() ? "–" : value));
  return fmt::format("<div><h3>{}</h3><dl>{}</dl></div>", escape(title), rows);
}

Pairs model_pairs(const RunSummary& summary) {
  Pairs pairs = {{"name", summary.model_name},
                 {"family", summary.family},
                 {"parameters", format_exact(summary.parameters)}};
  for (const auto& [key, value] : summary.model.items())
    pairs.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  return pairs;
}

// What the system counted, libraries included; empty where it was not asked.
std::string resident_text(const telemetry::ProcessFigures& process) {
  if (process.peak_rss_bytes == 0) return "";
  return fmt::format("{} ({} once libraries were loaded)", format_bytes(process.peak_rss_bytes),
                     format_bytes(process.rss_after_libraries_bytes));
}

Pairs run_pairs(const RunSummary& summary) {
  const int64_t tokens = summary.sequence_length * summary.global_batch_size;
  return {
      {"layout", summary.layout},
      {"ranks", std::to_string(summary.world_size)},
      {"global batch", fmt::format("{} sequences of {} = {} tokens", summary.global_batch_size,
                                   summary.sequence_length, format_exact(tokens))},
      {"micro-batch", fmt::format("{} sequences", summary.micro_batch_size)},
      {"device", summary.device},
      {"compute dtype", summary.dtype},
      {"threads a rank", std::to_string(summary.threads)},
      {"cores of this host", std::to_string(summary.host_cores)},
      {"peak of a device",
       summary.peak_flops ? fmt::format("{}/s ({})", format_flops(*summary.peak_flops), summary.peak_source)
                          : "unknown"},
      {"process memory, largest", resident_text(summary.process)},
      {"muster", summary.muster_version},
      {"LibTorch", summary.torch_version}};
}

std::string job_text(const RunFiles& run) {
  if (!run.job_toml) return missing(run.problems.at("job.toml"));
  return fmt::format("<details><summary>The effective job (job.toml)</summary><pre>{}</pre></details>",
                     escape(*run.job_toml));
}

}  // namespace

std::string what_ran_section(const RunFiles& run) {
  std::string body;
  if (run.summary)
    body = "<div class=\"columns\">" + pair_list("Run", run_pairs(*run.summary)) +
           pair_list("Model", model_pairs(*run.summary)) + "</div>";
  else
    body = missing(run.problems.at("summary.json"));
  return section("what-ran", "What ran", "", body + job_text(run));
}

std::string files_section(const RunFiles& run) {
  std::string notes;
  const auto note = [&notes](const std::string& text) { notes += "<li>" + escape(text) + "</li>"; };
  for (const auto& [file, why] : run.problems) note(why);
  if (run.unreadable_lines)
    note(fmt::format("metrics.jsonl: {} lines could not be read", run.unreadable_lines));
  if (run.repeated_steps)
    note(fmt::format("metrics.jsonl: {} steps were run again after a resume; the last time counts",
                     run.repeated_steps));
  if (run.summary && run.summary->dropped_metrics)
    note(fmt::format("{} steps' figures could not be written while training", run.summary->dropped_metrics));
  if (notes.empty()) return "";
  return section("notes", "What this page could not use", "", "<ul>" + notes + "</ul>");
}

}  // namespace muster::report
