#include "telemetry/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>

#include "base/error.h"

namespace muster::telemetry {
namespace {

using ::testing::HasSubstr;

StepMetrics step(int64_t number) {
  StepMetrics metrics;
  metrics.step = number;
  metrics.loss = 2.5;
  metrics.grad_norm = 0.75;
  metrics.learning_rate = 1e-3;
  metrics.tokens = 1024;
  metrics.tokens_seen = 1024 * number;
  metrics.step_seconds = 0.5;
  metrics.tokens_per_second = 2048;
  return metrics;
}

// A folder of this test's own, emptied.
fs::path fresh_folder(const char* name) {
  const fs::path folder = fs::path(::testing::TempDir()) / (std::string("muster_metrics_") + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// A log that writes into a pipe, and what came out of it.
struct CaughtLog {
  int ends[2];
  CaughtLog() { EXPECT_EQ(::pipe2(ends, 0), 0); }
  ~CaughtLog() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  Log log() const { return Log("", LogLevel::info, ends[1]); }
  std::string text() const {
    std::string text(65536, '\0');
    EXPECT_EQ(::write(ends[1], ".", 1), 1);  // so that the read below never waits
    text.resize(static_cast<size_t>(::read(ends[0], text.data(), text.size())));
    return text;
  }
};

TEST(Metrics, KeysOfOneStep) {
  Json json = to_json(step(3));
  for (const char* key : {"step", "loss", "grad_norm", "learning_rate", "tokens", "step_seconds",
                          "tokens_per_second", "mfu", "hfu", "skipped"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["step"], 3);
  EXPECT_TRUE(json["mfu"].is_null()) << "an unknown peak";
  EXPECT_FALSE(json.contains("non_finite"));
}

TEST(Metrics, NonFiniteIsNullAndFlagged) {
  StepMetrics metrics = step(1);
  metrics.loss = std::numeric_limits<double>::quiet_NaN();
  metrics.grad_norm = -std::numeric_limits<double>::infinity();
  const std::string line = to_json(metrics).dump();
  EXPECT_THAT(line, HasSubstr("\"loss\":null,\"grad_norm\":null"));
  EXPECT_THAT(line, HasSubstr("\"non_finite\":true"));
  const StepMetrics back = step_metrics_from_json(parse_json(line, "line"), "line");
  EXPECT_TRUE(std::isnan(back.loss));
  EXPECT_EQ(back.learning_rate, 1e-3);
  EXPECT_FALSE(back.mfu);
}

TEST(Metrics, RoundTrip) {
  StepMetrics metrics = step(7);
  metrics.mfu = 0.1 + 0.2;
  metrics.validation_loss = 1.0 / 3;
  metrics.skipped = true;
  metrics.peak_bytes = int64_t{1} << 40;
  const Json json = to_json(metrics);
  EXPECT_EQ(to_json(step_metrics_from_json(json, "line")).dump(), json.dump());
}

TEST(Metrics, FromOutsideIsChecked) {
  EXPECT_THROW(step_metrics_from_json(Json(3), "line"), WorldError);
  EXPECT_THROW(step_metrics_from_json({{"step", "three"}}, "line"), WorldError);
  EXPECT_THROW(step_metrics_from_json({{"loss", nullptr}}, "line"), WorldError) << "null without its flag";
}

TEST(JsonlSink, OneObjectALineAndResumesBehindATornLine) {
  const fs::path file = fresh_folder("jsonl") / "metrics.jsonl";
  make_jsonl_sink(file)->write(step(1));
  std::ofstream(file, std::ios::app) << "{\"step\":2,\"lo";
  make_jsonl_sink(file)->write(step(2));
  EXPECT_EQ(contents(file), to_json(step(1)).dump() + "\n" + to_json(step(2)).dump() + "\n");
}

TEST(JsonlSink, AFullDiskIsSaidOnceAndCounted) {
  const CaughtLog caught;
  const auto sink = make_jsonl_sink("/dev/full", caught.log());
  for (int64_t number = 1; number <= 5; ++number) sink->write(step(number));
  EXPECT_EQ(sink->dropped(), 5);
  const std::string said = caught.text();
  EXPECT_EQ(count(said, "No space left"), 1u) << said;
  EXPECT_THAT(said, HasSubstr("/dev/full"));
}

TEST(JsonlSink, AFolderThatIsNotThereYetLosesOnlyWhatCameBefore) {
  const CaughtLog caught;
  const fs::path folder = fresh_folder("later") / "run";
  const auto sink = make_jsonl_sink(folder / "metrics.jsonl", caught.log());
  sink->write(step(1));
  fs::create_directories(folder);
  sink->write(step(2));
  EXPECT_EQ(sink->dropped(), 1);
  EXPECT_EQ(contents(folder / "metrics.jsonl"), to_json(step(2)).dump() + "\n");
}

// A disk that fills up in the middle of a record, made with a limit on file size.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(JsonlSink, HalfARecordIsTakenBack) {
  const CaughtLog caught;
  const fs::path file = fresh_folder("half") / "metrics.jsonl";
  const std::string line = to_json(step(1)).dump() + "\n";
  const auto sink = make_jsonl_sink(file, caught.log());
  {
    const SizeLimit limit(line.size() * 3 / 2);
    sink->write(step(1));
    sink->write(step(2));
    EXPECT_EQ(contents(file), line);
  }
  sink->write(step(3));
  EXPECT_EQ(contents(file), line + to_json(step(3)).dump() + "\n");
  EXPECT_EQ(sink->dropped(), 1);
}

TEST(TensorboardSink, AFolderThatCannotBeIsSaidOnceAndCounted) {
  const CaughtLog caught;
  const auto sink = make_tensorboard_sink("/proc/nowhere", caught.log());
  sink->write(step(1));
  sink->write(step(2));
  sink->flush();
  EXPECT_EQ(sink->dropped(), 2);
  EXPECT_EQ(count(caught.text(), "/proc/nowhere"), 1u);
}

TEST(TensorboardSink, OneFileThatTensorboardFinds) {
  const fs::path folder = fresh_folder("events");
  const auto sink = make_tensorboard_sink(folder);
  sink->write(step(1));
  sink->write(step(2));
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    ++files;
    EXPECT_THAT(entry.path().filename().string(), ::testing::StartsWith("events.out.tfevents."));
    EXPECT_EQ(count(contents(entry.path()), "learning_rate"), 2u);
    EXPECT_EQ(count(contents(entry.path()), "brain.Event:2"), 1u);
  }
  EXPECT_EQ(files, 1u);
}

}  // namespace
}  // namespace muster::telemetry
