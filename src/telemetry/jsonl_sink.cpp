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

// The step of a line of metrics; nothing where the line is none.
std::optional<int64_t> step_of(std::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return std::nullopt;
  return json["step"].get<int64_t>();
}

}  // namespace

int64_t keep_steps(const fs::path& file, int64_t last_step) {
  if (!fs::is_regular_file(file)) return 0;
  const std::string text = read_text(file, int64_t{4} * GiB);
  std::string kept;
  int64_t cut = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    const std::optional<int64_t> step = step_of(line);
    if (step && *step <= last_step && end < text.size())
      kept.append(line).append("\n");
    else
      ++cut;
    at = end + 1;
  }
  if (cut > 0) write_text(file, kept);
  return cut;
}

std::unique_ptr<MetricsSink> make_jsonl_sink(const fs::path& file, Log log) {
  try {
    drop_torn_line(file);
  } catch (const std::exception& error) {
    log.warning("{}", error.what());
  }
  return std::make_unique<JsonlSink>(file, std::move(log));
}

}  // namespace muster::telemetry
