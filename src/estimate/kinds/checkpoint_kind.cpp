#include <cmath>
#include <optional>

#include "base/table.h"
#include "estimate/checkpoint.h"
#include "estimate/kinds/kind.h"
#include "estimate/kinds/numbers.h"

namespace muster::estimate {
namespace {

constexpr double kHour = 3600, kMinute = 60;
constexpr double kMostBytes = 1e18, kMostBytesEach = 1000;

struct Interval {
  const char* name;
  double seconds;
};

void add_intervals(Answer& answer, double cost, double mtbf) {
  const double young = young_interval(cost, mtbf), daly = daly_interval(cost, mtbf);
  answer.json["mtbf_seconds"] = mtbf;
  answer.json["young_interval_seconds"] = young;
  answer.json["daly_interval_seconds"] = daly;
  Json curve = Json::array();
  Table table({"interval", "of the best", "minutes", "wasted %"});
  const Interval intervals[] = {{"", daly / 4},       {"", daly / 2}, {"Daly", daly},
                                {"sqrt(2CM)", young}, {"", 2 * daly}, {"", 4 * daly}};
  for (const auto& [name, seconds] : intervals) {
    const double wasted = waste(seconds, cost, mtbf);
    curve.push_back({{"interval_seconds", seconds}, {"waste", wasted}});
    table.add({name, decimal(seconds / daly, 2), decimal(seconds / kMinute, 1), percent(wasted, 2)});
  }
  answer.json["waste_curve"] = curve;
  answer.text += fmt::format(
      "\ntime between failures of the job {:.1f} h, a checkpoint costs {:.1f} s: write one every {} s of "
      "work\n"
      "(Daly 2006, eq. 37; to first order sqrt(2CM) = {} s)\n",
      mtbf / kHour, cost, decimal(daly, 0), decimal(young, 0));
  answer.text += table.text();
}

// The job's own mean time between failures, from --mtbf-hours or from a node's; 0: not asked.
double read_mtbf(Options& options) {
  const auto job = options.quantity("--mtbf-hours");
  if (job) return *job * kHour;
  const auto node = options.quantity("--node-mtbf-hours");
  const auto nodes = options.count("--nodes");
  if (node.has_value() != nodes.has_value())
    options.problems().add(node ? "--nodes" : "--node-mtbf-hours", "", "is needed beside the other",
                           "give both, or --mtbf-hours");
  return node && nodes ? job_mtbf(*node * kHour, *nodes) : 0;
}

struct Request {
  double parameters = 0;  // 0: the interval alone
  double bytes_each = 16;
  double bandwidth = 0;  // GB/s; 0: not given
  double cost = 0;       // seconds of a checkpoint; 0: not known
  std::optional<double> every_minutes;
  double mtbf = 0;

  double bytes() const { return checkpoint_bytes(parameters, bytes_each); }
  double seconds() const { return bandwidth > 0 ? checkpoint_seconds(bytes(), bandwidth * 1e9) : 0; }
};

Request read(Options& options) {
  Request r;
  r.parameters = options.quantity("--params", 0) * 1e9;
  const auto cost = options.quantity("--cost-s");
  if (r.parameters == 0 && !cost)
    options.problems().add("--params", "", "is needed", "give --params, or --cost-s for the interval alone");
  if (r.parameters * kMostBytesEach > kMostBytes)
    options.problems().add("--params", plain(r.parameters), "is more than can be counted",
                           "it is in billions");
  if (r.parameters > 0) {
    r.bytes_each = options.quantity("--bytes-per-param", r.bytes_each);
    r.bandwidth = options.quantity("--bandwidth", 0);
  }
  if (r.bytes_each > kMostBytesEach)
    options.problems().add("--bytes-per-param", plain(r.bytes_each), "is more than 1000", "correct it");
  r.cost = cost.value_or(r.seconds());
  r.every_minutes = options.quantity("--every-min");
  r.mtbf = read_mtbf(options);
  if ((r.every_minutes || r.mtbf > 0) && r.cost == 0)
    options.problems().add("--bandwidth", "", "is needed for the time of a checkpoint",
                           "give it in GB/s, or --cost-s");
  if (r.every_minutes && r.cost >= *r.every_minutes * kMinute)
    options.problems().add("--every-min", plain(*r.every_minutes),
                           fmt::format("is no longer than a checkpoint takes, {} s", decimal(r.cost, 1)),
                           "write less often, or faster");
  options.finish();
  return r;
}

void add_size(const Request& r, Answer& answer) {
  const int64_t bytes = std::llround(r.bytes());
  answer.json.update({{"parameters", r.parameters}, {"bytes_per_parameter", r.bytes_each}, {"bytes", bytes}});
  answer.text = fmt::format("a checkpoint of {} parameters at {} bytes: {} GiB ({} GB)\n",
                            format_count(r.parameters), plain(r.bytes_each), gib(bytes, 0), gb(r.bytes(), 0));
  if (r.bandwidth == 0) return;
  answer.json["seconds"] = r.seconds();
  answer.text += fmt::format("written at {} GB/s: {} s\n", plain(r.bandwidth),
                             decimal(r.seconds(), r.seconds() < 100 ? 1 : 0));
}

}  // namespace

Answer checkpoint_answer(Options& options) {
  const Request r = read(options);
  Answer answer;
  answer.json = {{"kind", "checkpoint"}};
  if (r.parameters > 0) add_size(r, answer);
  if (r.every_minutes) {
    const double lost = share_lost(r.cost, *r.every_minutes * kMinute);
    answer.json["share_lost"] = lost;
    answer.text += fmt::format("one every {} min, blocking: {} % of the time lost\n", plain(*r.every_minutes),
                               percent(lost));
  }
  if (r.mtbf > 0) add_intervals(answer, r.cost, r.mtbf);
  return answer;
}

}  // namespace muster::estimate
