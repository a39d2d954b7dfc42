#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/table.h"
#include "estimate/kinds/kind.h"
#include "estimate/kinds/numbers.h"
#include "estimate/pipeline_timeline.h"

namespace muster::estimate {
namespace {

constexpr const char* kSchedules[] = {"gpipe", "1f1b", "interleaved", "zb-h1"};
constexpr int64_t kSweepStages[] = {2, 4, 8, 16, 32};
constexpr int64_t kSweepMicroBatches[] = {1, 2, 4, 8, 16, 32, 64, 128};
constexpr int64_t kMostStages = 1 << 16, kMostMicroBatches = 1 << 20, kMostChunks = 1 << 10;
// What is run and what is drawn: answers stay under 50 ms.
constexpr int64_t kMostRun = 20'000, kMostDrawn = 4'000;

struct Request {
  Schedule schedule = Schedule::one_f_one_b;
  PipelineShape shape;
  std::vector<double> stage_ms;  // one a stage; empty: not given
  double target = 0.9;
  bool sweep = false;
  int64_t columns = 160;
};

void check(const Request& r, Problems& problems) {
  const auto& [p, m, v] = r.shape;
  if (r.schedule == Schedule::interleaved && m % p != 0)
    problems.add("--micro-batches", std::to_string(m),
                 fmt::format("must be a multiple of the {} stages under interleaved", p),
                 fmt::format("use {} or {}", std::max(m / p, int64_t{1}) * p, (m / p + 1) * p));
  if (r.schedule == Schedule::interleaved && v < 2)
    problems.add("--chunks", std::to_string(v), "must be at least 2 under interleaved",
                 "use 2, or --schedule 1f1b");
  if (r.schedule == Schedule::zb_h1 && m < p)
    problems.add("--micro-batches", std::to_string(m),
                 fmt::format("must be at least the {} stages under zb-h1", p),
                 "its bubble has no closed formula below");
  if (r.stage_ms.size() > 1 && static_cast<int64_t>(r.stage_ms.size()) != p)
    problems.add("--stage-ms", std::to_string(r.stage_ms.size()) + " values",
                 fmt::format("must be one for all or one for each of the {} stages", p),
                 "give as many as stages");
  if (r.target > 0.9999)
    problems.add("--target-efficiency", plain(r.target), "must be at most 0.9999", "write 0.9 for 90 %");
}

Request read(Options& options) {
  Request r;
  options.require("--stages");
  options.require("--micro-batches");
  r.shape.stages = options.count_up_to("--stages", kMostStages).value_or(1);
  r.shape.micro_batches = options.count_up_to("--micro-batches", kMostMicroBatches).value_or(r.shape.stages);
  const bool chunked = options.given("--chunks");
  r.schedule = static_cast<Schedule>(
      options.choice("--schedule", kSchedules,
                     static_cast<size_t>(chunked ? Schedule::interleaved : Schedule::one_f_one_b)));
  if (r.schedule == Schedule::interleaved)
    r.shape.chunks = options.count_up_to("--chunks", kMostChunks).value_or(2);
  r.stage_ms = options.quantities("--stage-ms");
  r.target = options.quantity("--target-efficiency", r.target);
  r.sweep = options.flag("--sweep");
  r.columns = options.count("--columns", r.columns);
  if (r.columns < 40)
    options.problems().add("--columns", std::to_string(r.columns), "must be at least 40", "widen it");
  check(r, options.problems());
  options.finish();
  if (r.stage_ms.size() == 1) r.stage_ms.resize(static_cast<size_t>(r.shape.stages), r.stage_ms[0]);
  return r;
}

// "46.7 % = 0.467"
std::string as_share(double share) {
  return fmt::format("{} % = {}", percent(share), plain(std::round(share * 1e3) / 1e3));
}

void add_bubble(const Request& r, Answer& answer) {
  const double of_capacity = bubble_of_capacity(r.schedule, r.shape);
  const double over_ideal = bubble_over_ideal(r.schedule, r.shape);
  const int64_t needed = micro_batches_for(r.target, r.schedule, r.shape);
  const double per_stage = static_cast<double>(needed) / static_cast<double>(r.shape.stages);
  answer.json.update({{"bubble_of_capacity", of_capacity},
                      {"bubble_over_ideal", over_ideal},
                      {"efficiency", pipeline_efficiency(r.schedule, r.shape)},
                      {"target_efficiency", r.target},
                      {"micro_batches_for_target", needed},
                      {"target_times_stages", per_stage}});
  Table table({"", "", "formula"});
  const bool interleaved = r.schedule == Schedule::interleaved;
  const char* idle = r.schedule == Schedule::zb_h1 ? "(p-1)/3" : interleaved ? "(p-1)/v" : "p-1";
  table.add({"bubble of capacity", as_share(of_capacity), fmt::format("b/(m+b), b = {}", idle)});
  table.add({"bubble over ideal", as_share(over_ideal), fmt::format("b/m, b = {}", idle)});
  table.add({"efficiency", percent(pipeline_efficiency(r.schedule, r.shape)) + " %", "m/(m+b)"});
  table.add({fmt::format("micro-batches for {} %", percent(r.target, 0)), std::to_string(needed),
             fmt::format("{} times the stages", decimal(per_stage, 1))});
  answer.text += table.text();
}

void add_stages(const Request& r, const Timeline& timeline, bool in_ms, Answer& answer) {
  Table table({"stage", "in flight", "as micro-batches", "busy %"});
  Json stages = Json::array();
  for (int64_t stage = 0; stage < r.shape.stages; ++stage) {
    const int64_t chunks = chunks_in_flight(r.schedule, r.shape, stage);
    const double micro_batches = static_cast<double>(chunks) / static_cast<double>(r.shape.chunks);
    const double busy = timeline.busy(stage) / timeline.end;
    stages.push_back({{"stage", stage},
                      {"chunks_in_flight", chunks},
                      {"micro_batches_in_flight", micro_batches},
                      {"busy", busy}});
    table.add({std::to_string(stage), std::to_string(chunks), plain(micro_batches), percent(busy)});
  }
  answer.json["per_stage"] = stages;
  answer.text += "\nactivations in flight, and time at work\n" + table.text();
  if (!in_ms) return;
  const auto slowest = std::max_element(r.stage_ms.begin(), r.stage_ms.end());
  const double gpipe = unbalanced_step_seconds(r.stage_ms, r.shape.micro_batches);
  answer.json["step_ms"] = timeline.end;
  answer.json["gpipe_step_ms"] = gpipe;
  answer.json["slowest_stage"] = slowest - r.stage_ms.begin();
  answer.text += fmt::format(
      "a step takes {} ms, efficiency {} %; sum(t) + (m-1) max(t) = {} ms under gpipe, efficiency {} %\n",
      decimal(timeline.end, 1), percent(timeline.efficiency()), decimal(gpipe, 1),
      percent(unbalanced_efficiency(r.stage_ms, r.shape.micro_batches)));
  if (*slowest > *std::min_element(r.stage_ms.begin(), r.stage_ms.end()))
    answer.text +=
        fmt::format("stage {} sets the pace: {} ms\n", slowest - r.stage_ms.begin(), plain(*slowest));
}

void add_timeline(const Request& r, const Timeline& timeline, Answer& answer) {
  Json stages = Json::array();
  for (const auto& tasks : timeline.stages) {
    Json list = Json::array();
    for (const Task& task : tasks)
      list.push_back({{"work", std::string(1, static_cast<char>(task.work))},
                      {"micro_batch", task.micro_batch},
                      {"chunk", task.chunk},
                      {"start", task.start},
                      {"end", task.end}});
    stages.push_back(list);
  }
  answer.json["timeline"] = stages;
  answer.text += "\n" + draw(timeline, static_cast<size_t>(r.columns)) +
                 "F forward, B backward (W its weight half), = goes on, . idle; letters are chunks\n";
}

void add_sweep(const Request& r, Answer& answer) {
  std::vector<std::string> header = {"efficiency %, stages"};
  for (int64_t m : kSweepMicroBatches) header.push_back("m=" + std::to_string(m));
  Table table(header);
  Json rows = Json::array();
  for (int64_t p : kSweepStages) {
    std::vector<std::string> row = {std::to_string(p)};
    Json values = Json::array();
    for (int64_t m : kSweepMicroBatches) {
      const double efficiency = pipeline_efficiency(r.schedule, {p, m, r.shape.chunks});
      values.push_back({{"micro_batches", m}, {"efficiency", efficiency}});
      row.push_back(percent(efficiency, 0));
    }
    rows.push_back({{"stages", p}, {"row", values}});
    table.add(row);
  }
  answer.json["sweep"] = rows;
  answer.text += "\n" + table.text();
}

}  // namespace

Answer pipeline_answer(Options& options) {
  const Request r = read(options);
  Answer answer;
  answer.json = {{"kind", "pipeline"},
                 {"schedule", to_string(r.schedule)},
                 {"stages", r.shape.stages},
                 {"micro_batches", r.shape.micro_batches},
                 {"chunks", r.shape.chunks}};
  answer.text = fmt::format("{}: {} stages, {} micro-batches", to_string(r.schedule), r.shape.stages,
                            r.shape.micro_batches);
  answer.text += r.shape.chunks > 1 ? fmt::format(", {} chunks a stage\n", r.shape.chunks) : "\n";
  add_bubble(r, answer);
  const int64_t tasks = 2 * r.shape.stages * r.shape.micro_batches * r.shape.chunks;
  if (tasks <= kMostRun) {
    const bool in_ms = !r.stage_ms.empty();
    const auto times = in_ms ? r.stage_ms : std::vector<double>(static_cast<size_t>(r.shape.stages), 1.0);
    const Timeline timeline = run_pipeline(r.schedule, r.shape, times);
    add_stages(r, timeline, in_ms, answer);
    if (tasks <= kMostDrawn) add_timeline(r, timeline, answer);
  }
  if (tasks > kMostDrawn) answer.text += "too many tasks to draw; the formulas hold\n";
  if (r.sweep) add_sweep(r, answer);
  return answer;
}

}  // namespace muster::estimate
