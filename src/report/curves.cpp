// What metrics.jsonl says, as curves over the steps.
#include <cmath>

#include <fmt/format.h>

#include "report/html.h"
#include "report/line_chart.h"
#include "report/sections.h"

namespace muster::report {
namespace {

using telemetry::StepMetrics;

template <class Value>
std::vector<Point> points_of(const std::vector<StepMetrics>& steps, Value&& value) {
  std::vector<Point> points;
  for (const StepMetrics& step : steps)
    if (const std::optional<double> y = value(step)) points.emplace_back(static_cast<double>(step.step), *y);
  return points;
}

std::vector<double> skipped_steps(const std::vector<StepMetrics>& steps) {
  std::vector<double> skipped;
  for (const StepMetrics& step : steps)
    if (step.skipped) skipped.push_back(static_cast<double>(step.step));
  return skipped;
}

LineChart loss_chart(const RunFiles& run) {
  LineChart chart;
  chart.label = "training and validation loss by step";
  chart.series.push_back({"training", "series-1", points_of(run.steps, [](const StepMetrics& step) {
                            return std::optional(step.loss);
                          })});
  auto validation = points_of(run.steps, [](const StepMetrics& step) { return step.validation_loss; });
  if (!validation.empty()) chart.series.push_back({"validation", "series-2", std::move(validation), true});
  chart.x_title = "step";
  chart.marks = skipped_steps(run.steps);
  return chart;
}

// Two pictures and a switch between them that needs no script.
std::string with_switch(const std::string& linear, const std::string& logarithmic) {
  return fmt::format(
      "<div class=\"switch\"><input type=\"radio\" name=\"loss-x\" id=\"loss-linear\" checked><label "
      "for=\"loss-linear\">linear steps</label><input type=\"radio\" name=\"loss-x\" id=\"loss-log\"><label "
      "for=\"loss-log\">logarithmic steps</label><div class=\"chart when-first\">{}</div><div class=\"chart "
      "when-second\">{}</div></div>",
      linear, logarithmic);
}

std::string small_chart(const std::string& title, const std::string& note, LineChart chart) {
  chart.width = 525, chart.height = 215;
  chart.label = title, chart.x_title = "step";
  return fmt::format(
      "<div class=\"small\"><h3>{}</h3><p class=\"fine\">{}</p><div class=\"chart\">{}</div></div>",
      escape(title), escape(note), line_chart(chart));
}

bool spans_decades(const std::vector<Point>& points) {
  double low = INFINITY, high = 0;
  for (const auto& [x, y] : points)
    if (std::isfinite(y) && y > 0) low = std::min(low, y), high = std::max(high, y);
  return high > 30 * low;
}

std::string throughput(const RunFiles& run) {
  LineChart chart;
  chart.series = {{"tokens/s", "series-1", points_of(run.steps, [](const StepMetrics& step) {
                     return std::optional(step.tokens_per_second);
                   })}};
  chart.from_zero = true;
  return small_chart("Throughput", "tokens/s of all ranks", chart);
}

std::string gradient_norm(const RunFiles& run) {
  LineChart chart;
  chart.series = {{"norm", "series-3", points_of(run.steps, [](const StepMetrics& step) {
                     return std::optional(step.grad_norm);
                   })}};
  chart.logarithmic_y = spans_decades(chart.series[0].points);
  chart.marks = skipped_steps(run.steps);
  return small_chart(
      "Gradient norm",
      chart.marks.empty() ? "global, before clipping" : "global, before clipping; ▲ update skipped", chart);
}

std::string learning_rate(const RunFiles& run) {
  LineChart chart;
  chart.series = {{"learning rate", "series-4", points_of(run.steps, [](const StepMetrics& step) {
                     return std::optional(step.learning_rate);
                   })}};
  chart.from_zero = true;
  return small_chart("Learning rate", "of the update", chart);
}

std::string waits(const RunFiles& run) {
  const auto share = [](double StepMetrics::*seconds) {
    return [seconds](const StepMetrics& step) {
      return step.step_seconds > 0 ? std::optional(100 * step.*seconds / step.step_seconds) : std::nullopt;
    };
  };
  LineChart chart;
  chart.series = {{"exposed communication", "series-2",
                   points_of(run.steps, share(&StepMetrics::exposed_communication_seconds))},
                  {"data wait", "series-5", points_of(run.steps, share(&StepMetrics::data_wait_seconds))}};
  chart.from_zero = true;
  return small_chart("Standing still", "% of the step's time, rank 0", chart);
}

}  // namespace

std::string loss_section(const RunFiles& run) {
  const std::string lead = "Mean over the target tokens of the global batch, before the update.";
  if (run.steps.empty()) {
    const auto why = run.problems.find("metrics.jsonl");
    return section("loss", "Loss", lead,
                   missing(why == run.problems.end() ? "metrics.jsonl holds no step" : why->second));
  }
  LineChart chart = loss_chart(run);
  const std::string linear = line_chart(chart);
  chart.logarithmic_x = true;
  return section("loss", "Loss", lead, with_switch(linear, line_chart(chart)));
}

std::string speed_section(const RunFiles& run) {
  if (run.steps.empty()) return "";
  return section("speed", "Speed and stability", "",
                 "<div class=\"grid-2\">" + throughput(run) + gradient_norm(run) + learning_rate(run) +
                     waits(run) + "</div>");
}

}  // namespace muster::report
