#include "base/table.h"
#include "base/units.h"
#include "estimate/batch.h"
#include "estimate/kinds/kind.h"

namespace muster::estimate {
namespace {

constexpr int64_t kMostTokens = 1 << 20;  // of a sequence: a step's tokens stay countable

}  // namespace

Answer batch_answer(Options& options) {
  const BatchRequest request = {options.count("--global"), options.count("--data"),
                                options.count("--accumulation"), options.count("--micro")};
  const auto sequence = options.count_up_to("--sequence", kMostTokens);
  Batch batch;
  options.problems().gather([&] { batch = complete_batch(request); });
  options.finish();

  Answer answer;
  answer.json = {{"kind", "batch"},
                 {"global", batch.global},
                 {"data", batch.data},
                 {"accumulation", batch.accumulation},
                 {"micro", batch.micro}};
  Table table({"global", "=", "data", "x", "accumulation", "x", "micro"});
  table.add({std::to_string(batch.global), "=", std::to_string(batch.data), "x",
             std::to_string(batch.accumulation), "x", std::to_string(batch.micro)});
  answer.text = table.text();
  if (sequence) {
    answer.json["tokens"] = batch.global * *sequence;
    answer.text += fmt::format("{} tokens a step\n", format_exact(batch.global * *sequence));
  }
  return answer;
}

}  // namespace muster::estimate
