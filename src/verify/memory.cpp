#include "verify/memory.h"

#include "base/error.h"
#include "telemetry/run_summary.h"

namespace muster::verify {
namespace {

// Live bytes after each change, without scratch; a change of category alone is none.
std::vector<int64_t> profile(const telemetry::StepRecord& record) {
  std::vector<int64_t> live;
  int64_t total = 0;
  for (const telemetry::MemoryEvent& event : record.memory) {
    if (event.category == telemetry::Category::scratch) continue;
    total += event.bytes;
    live.push_back(total);
  }
  return live;
}

}  // namespace

std::vector<Check> memory(const telemetry::StepRecord& rehearsed, const Witness& rank) {
  const telemetry::MemoryFigures expected = telemetry::memory_figures(rehearsed);
  const telemetry::MemoryFigures measured = telemetry::memory_figures(rank.record);
  const auto name = [&](const char* what) { return fmt::format("memory rank {} {}", rank.rank, what); };
  return {exactly(name("parameters"), expected.parameters, measured.parameters),
          exactly(name("master parameters"), expected.master_parameters, measured.master_parameters),
          exactly(name("gradients"), expected.gradients, measured.gradients),
          exactly(name("optimizer"), expected.optimizer, measured.optimizer),
          exactly(name("peak"), expected.peak_bytes, measured.peak_bytes),
          exactly(name("peak at"), expected.peak_at, measured.peak_at),
          exactly(name("profile"), profile(rehearsed), profile(rank.record))};
}

}  // namespace muster::verify
