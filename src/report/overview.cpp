// The top of the page: what the run was, and the six answers that one looks for first.
#include <fmt/format.h>

#include <cmath>

#include "base/units.h"
#include "report/html.h"
#include "report/sections.h"

namespace muster::report {
namespace {

using telemetry::MemoryFigures;
using telemetry::RunSummary;
using telemetry::StepMetrics;

std::string card(std::string_view name, const std::string& value, const std::string& unit,
                 const std::string& below) {
  return fmt::format(
      "<div class=\"card\"><h3>{}</h3><p class=\"value\">{}{}</p><div class=\"below\">{}</div></div>",
      escape(name), escape(value), unit.empty() ? "" : fmt::format("<small>{}</small>", escape(unit)), below);
}

std::string loss_text(double loss) {
  return std::isfinite(loss) ? fmt::format("{:.4f}", loss) : "not finite";
}

std::string loss_card(const RunFiles& run) {
  if (run.steps.empty()) return card("Loss", "–", "", "no step was recorded");
  const StepMetrics &first = run.steps.front(), &last = run.steps.back();
  std::string below = fmt::format("from {} at step {}", loss_text(first.loss), first.step);
  const StepMetrics* best = nullptr;
  for (const StepMetrics& step : run.steps)
    if (step.validation_loss && (!best || *step.validation_loss < *best->validation_loss)) best = &step;
  if (best)
    below += fmt::format("<br>best validation <b>{}</b> at step {}", loss_text(*best->validation_loss),
                         best->step);
  return card("Training loss", loss_text(last.loss), "", below);
}

// Tokens a second over all steps but the first, which warms up.
std::optional<double> average_speed(const RunFiles& run) {
  if (run.summary && run.summary->tokens_per_second) return run.summary->tokens_per_second;
  double tokens = 0, seconds = 0;
  for (size_t index = 1; index < run.steps.size(); ++index)
    tokens += static_cast<double>(run.steps[index].tokens), seconds += run.steps[index].step_seconds;
  return seconds > 0 ? std::optional(tokens / seconds) : std::nullopt;
}

std::string speed_card(const RunFiles& run) {
  const std::optional<double> speed = average_speed(run);
  std::string below = "average without the first step";
  if (run.summary)
    below += fmt::format("<br>{} tokens in {}", format_count(static_cast<double>(run.summary->tokens)),
                         format_seconds(run.summary->wall_seconds));
  return card("Throughput", speed ? format_exact(std::llround(*speed)) : "–", speed ? "tokens/s" : "", below);
}

std::string mfu_card(const RunFiles& run) {
  if (!run.summary) return card("MFU", "unknown", "", "summary.json is not there");
  const RunSummary& summary = *run.summary;
  std::string below;
  if (summary.hfu) below = fmt::format("HFU {} (what ran)<br>", percent(*summary.hfu));
  return card("MFU", summary.mfu ? percent(*summary.mfu) : "unknown", "",
              below + "<span class=\"fine\">" + escape(summary.mfu_convention) + "</span>");
}

std::string memory_verdict(const MemoryFigures& measured, const MemoryFigures& rehearsed) {
  const int64_t off = measured.peak_bytes - rehearsed.peak_bytes;
  if (off == 0) return badge(Verdict::good, "as rehearsed, to the byte");
  return badge(Verdict::bad,
               fmt::format("{}{} bytes against the rehearsal", off > 0 ? "+" : "", format_exact(off)));
}

std::optional<MemoryFigures> memory_of(const std::optional<telemetry::StepRecord>& record,
                                       const std::optional<MemoryFigures>& otherwise) {
  return record ? telemetry::memory_figures(*record) : otherwise;
}

std::string memory_card(const RunFiles& run) {
  const std::optional<MemoryFigures> none;
  const auto measured = memory_of(run.measured, run.summary ? run.summary->measured_memory : none);
  const auto rehearsed = memory_of(run.rehearsed, run.summary ? run.summary->rehearsed_memory : none);
  if (!measured && !rehearsed) return card("Peak memory", "–", "", "no step was recorded");
  const MemoryFigures& shown = measured ? *measured : *rehearsed;
  const std::string text = format_bytes(shown.peak_bytes);
  const size_t space = text.find(' ');
  const std::string verdict =
      measured && rehearsed ? memory_verdict(*measured, *rehearsed)
                            : badge(Verdict::unknown, measured ? "not rehearsed" : "rehearsed, not measured");
  return card("Peak memory, rank 0", text.substr(0, space), text.substr(space + 1),
              fmt::format("{} bytes<br>{}", format_exact(shown.peak_bytes), verdict));
}

std::string outcome_card(const RunFiles& run) {
  if (!run.summary)
    return card("Outcome", run.steps.empty() ? "–" : fmt::format("step {}", run.steps.back().step), "",
                badge(Verdict::unknown, "no summary.json: still running, or killed"));
  const RunSummary& summary = *run.summary;
  const bool finished = summary.exit_reason == telemetry::kFinished;
  std::string below = badge(finished ? Verdict::good : Verdict::bad, summary.exit_reason);
  below += fmt::format("<br>wall time {}", format_seconds(summary.wall_seconds));
  if (summary.skipped_steps)
    below +=
        fmt::format("<br>{} update{} skipped", summary.skipped_steps, summary.skipped_steps == 1 ? "" : "s");
  if (summary.resumed_from)
    below += fmt::format("<br>resumed from step {} ({})", summary.resumed_from, summary.resume_contract);
  return card("Outcome", std::to_string(run.steps.empty() ? summary.steps : run.steps.back().step),
              fmt::format("of {} steps", summary.steps_planned), below);
}

std::string subtitle(const RunSummary& summary) {
  return fmt::format("{} · {} parameters · {} · {} rank{} · {} · {}", summary.model_name,
                     format_count(static_cast<double>(summary.parameters)), summary.layout,
                     summary.world_size, summary.world_size == 1 ? "" : "s", summary.device, summary.dtype);
}

}  // namespace

std::string title_and_cards(const RunFiles& run) {
  const std::string cards =
      loss_card(run) + speed_card(run) + mfu_card(run) + memory_card(run) + outcome_card(run);
  return fmt::format(
      "<header><p class=\"brand\">muster · run report</p><h1>{}</h1><p class=\"subtitle\">{}</p></header>"
      "<div class=\"cards\">{}</div>\n",
      escape(run.name), run.summary ? escape(subtitle(*run.summary)) : "", cards);
}

}  // namespace muster::report
