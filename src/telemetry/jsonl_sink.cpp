#include <algorithm>

#include "base/units.h"
#include "telemetry/best_effort_file.h"
#include "telemetry/metrics.h"

namespace muster::telemetry {
namespace {

constexpr int64_t kLongestLine = 64 * KiB;

// A process killed in the middle of a write leaves a line without its end; the next line must not join it.
void drop_torn_line(const fs::path& path) {
  if (!fs::is_regular_file(path)) return;
  const File file = File::open_read(path);
  const int64_t size = file.size(), length = std::min(size, kLongestLine);
  std::string tail(static_cast<size_t>(length), '\0');
  file.read_at(tail.data(), tail.size(), size - length);
  const size_t end = tail.rfind('\n');
  const int64_t keep = size - length + (end == std::string::npos ? 0 : static_cast<int64_t>(end) + 1);
  if (keep < size) fs::resize_file(path, static_cast<uintmax_t>(keep));
}

class JsonlSink : public MetricsSink {
 public:
  JsonlSink(const fs::path& path, Log log) : file_(path, "", std::move(log)) {}
  void write(const StepMetrics& metrics) override { file_.append(to_json(metrics).dump() + "\n"); }
  void flush() override { file_.sync(); }
  int64_t dropped() const override { return file_.dropped(); }

 private:
  BestEffortFile file_;
};

}  // namespace

std::unique_ptr<MetricsSink> make_jsonl_sink(const fs::path& file, Log log) {
  try {
    drop_torn_line(file);
  } catch (const std::exception& error) {
    log.warning("{}", error.what());
  }
  return std::make_unique<JsonlSink>(file, std::move(log));
}

}  // namespace muster::telemetry
