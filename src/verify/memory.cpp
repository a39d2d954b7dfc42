#include "verify/memory.h"

#include "base/error.h"
#include "base/hash.h"
#include "telemetry/run_summary.h"

namespace muster::verify {
namespace {

// Live bytes on the device after each change, as their number and a hash: too long a list to print.
Json profile(const telemetry::StepRecord& record) {
  int64_t total = 0, changes = 0;
  uint64_t hash = 0;
  for (const telemetry::MemoryEvent& event : record.memory) {
    if (!telemetry::is_on_device(event.category)) continue;
    total += event.bytes;
    ++changes;
    hash = hash64(std::string_view(reinterpret_cast<const char*>(&total), sizeof total), hash);
  }
  return fmt::format("{} changes, hash {:016x}", changes, hash);
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
          exactly(name("optimizer on the host"), expected.host_optimizer, measured.host_optimizer),
          exactly(name("gathered"), expected.gathered_bytes, measured.gathered_bytes),
          exactly(name("peak"), expected.peak_bytes, measured.peak_bytes),
          exactly(name("peak at"), expected.peak_at, measured.peak_at),
          exactly(name("profile"), profile(rehearsed), profile(rank.record))};
}

}  // namespace muster::verify
