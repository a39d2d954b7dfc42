#include "base/table.h"
#include "estimate/kinds/kind.h"
#include "estimate/kinds/numbers.h"
#include "estimate/straggler.h"

namespace muster::estimate {

Answer straggler_answer(Options& options) {
  const int64_t ranks = options.required_count("--ranks");
  const double sigma = options.required_quantity("--sigma");
  options.finish();

  const double bound = largest_normal_bound(ranks), expected = largest_normal_expected(ranks);
  const double factor = straggler_factor(sigma, ranks);
  Answer answer;
  answer.json = {{"kind", "straggler"},
                 {"ranks", ranks},
                 {"sigma", sigma},
                 {"sqrt_2_ln_n", bound},
                 {"expected_maximum", expected},
                 {"step_factor", factor},
                 {"step_factor_expected", 1 + sigma * expected}};
  Table table({"", "standard deviations", "step factor"});
  table.add({"sqrt(2 ln N)", decimal(bound, 2), decimal(factor, 3)});
  table.add({"expected maximum", decimal(expected, 2), decimal(1 + sigma * expected, 3)});
  answer.text =
      fmt::format("the slowest of {} ranks whose step times vary by {} %\n", ranks, percent(sigma, 2)) +
      table.text() + "sqrt(2 ln N) is a bound; both suppose independent normal times.\n";
  return answer;
}

}  // namespace muster::estimate
