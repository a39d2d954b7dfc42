#include <cmath>

#include "base/table.h"
#include "estimate/checkpoint.h"
#include "estimate/kinds/kind.h"
#include "estimate/kinds/numbers.h"

namespace muster::estimate {
namespace {

constexpr double kHour = 3600, kMinute = 60;

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

}  // namespace

Answer checkpoint_answer(Options& options) {
  const double parameters = options.quantity("--params", 0) * 1e9;
  const auto given_cost = options.quantity("--cost-s");
  if (parameters == 0 && !given_cost)
    options.problems().add("--params", "", "is needed", "give --params, or --cost-s for the interval alone");
  const double each = parameters > 0 ? options.quantity("--bytes-per-param", 16) : 0;
  const double bandwidth = parameters > 0 ? options.quantity("--bandwidth", 0) : 0;
  const auto every = options.quantity("--every-min");
  const double mtbf = read_mtbf(options);

  const double bytes = checkpoint_bytes(parameters, each);
  const double seconds = bandwidth > 0 ? checkpoint_seconds(bytes, bandwidth * 1e9) : 0;
  const double cost = given_cost.value_or(seconds);
  if ((every || mtbf > 0) && cost == 0)
    options.problems().add("--bandwidth", "", "is needed for the time of a checkpoint",
                           "give it in GB/s, or --cost-s");
  options.finish();

  Answer answer;
  answer.json = {{"kind", "checkpoint"}};
  if (parameters > 0) {
    answer.json.update(
        {{"parameters", parameters}, {"bytes_per_parameter", each}, {"bytes", std::llround(bytes)}});
    answer.text =
        fmt::format("a checkpoint of {} parameters at {} bytes: {} GiB ({} GB)\n", format_count(parameters),
                    plain(each), gib(std::llround(bytes), 0), gb(bytes, 0));
  }
  if (bandwidth > 0) {
    answer.json["seconds"] = seconds;
    answer.text +=
        fmt::format("written at {} GB/s: {} s\n", plain(bandwidth), decimal(seconds, seconds < 100 ? 1 : 0));
  }
  if (every) {
    const double lost = share_lost(cost, *every * kMinute);
    answer.json["share_lost"] = lost;
    answer.text +=
        fmt::format("one every {} min, blocking: {} % of the time lost\n", plain(*every), percent(lost));
  }
  if (mtbf > 0) add_intervals(answer, cost, mtbf);
  return answer;
}

}  // namespace muster::estimate
