#include "report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "report/fake_run.h"
#include "report/run_files.h"

namespace muster::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A made-up run in a folder of this test's own, removed at the end unless MUSTER_KEEP_REPORT is set.
class RunPage : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / ("muster_report_" + std::to_string(::getpid())) / test->name();
    testing::write_fake_run(folder_, 60);
  }
  void TearDown() override {
    if (!std::getenv("MUSTER_KEEP_REPORT")) fs::remove_all(folder_.parent_path());
  }
  void overwrite(const char* file, const std::string& text) { std::ofstream(folder_ / file) << text; }

  fs::path folder_;
};

TEST_F(RunPage, ShowsEveryPart) {
  const std::string page = read_text(write_report(folder_));
  for (const char* id : {"loss", "speed", "memory", "messages", "step", "time", "what-ran"})
    EXPECT_THAT(page, HasSubstr(std::string("<section id=\"") + id + "\"")) << id;
  EXPECT_THAT(page, Not(HasSubstr("class=\"missing\"")));
  EXPECT_THAT(page, HasSubstr("as rehearsed, to the byte"));
  EXPECT_THAT(page, HasSubstr("2 x 83 GFLOP/s (measured by probe)")) << "MFU names its convention and peak";
  EXPECT_THAT(page, HasSubstr("href=\"trace/rank0.json\""));
  EXPECT_THAT(page, HasSubstr("peak 600.0 MiB · layer 5 ffn"));
  EXPECT_LT(page.size(), 1000000u);
}

TEST_F(RunPage, SaysWhyMessagesWereExposed) {
  const std::string page = run_page(folder_);
  EXPECT_THAT(page, HasSubstr("What the computation did not hide"));
  EXPECT_THAT(page, HasSubstr("nothing was left to compute; most before "));
}

TEST_F(RunPage, FetchesNothing) {
  const std::string page = run_page(folder_);
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* fetch :
       {"<link", "<img", "<iframe", "src=", "@import", "url(", "fetch(", "XMLHttpRequest"})
    EXPECT_THAT(page, Not(HasSubstr(fetch))) << fetch;
}

TEST_F(RunPage, ADifferenceFromTheRehearsalIsSaid) {
  telemetry::StepRecord measured = testing::fake_record(6, 2, true);
  measured.memory[0].bytes += 4096;
  measured.messages.pop_back();
  overwrite("trace/record.measured.json", to_json(measured).dump());
  const std::string page = run_page(folder_);
  EXPECT_THAT(page, HasSubstr("+4,096 bytes against the rehearsal"));
  EXPECT_THAT(page, Not(HasSubstr("as rehearsed, to the byte")));
  EXPECT_THAT(page, HasSubstr("<span class=\"differs\">differs</span>"));
}

TEST_F(RunPage, EachFileMayBeMissing) {
  for (const char* file : {"job.toml", "metrics.jsonl", "summary.json", "trace/record.measured.json",
                           "trace/record.rehearsed.json"}) {
    testing::write_fake_run(folder_, 3);
    fs::remove(folder_ / file);
    EXPECT_THAT(run_page(folder_), HasSubstr(std::string(file) + " is not there"));
  }
}

TEST_F(RunPage, EachFileMayBeDamaged) {
  for (const char* file : {"summary.json", "trace/record.measured.json", "trace/record.rehearsed.json"}) {
    testing::write_fake_run(folder_, 3);
    for (const char* damage : {"", "{", "[]", "{\"format\": 3}", "{\"parameters\": \"many\"}"}) {
      overwrite(file, damage);
      EXPECT_THAT(run_page(folder_), HasSubstr("class=\"missing\"")) << file << " " << damage;
    }
  }
}

TEST_F(RunPage, AnEmptyFolderGivesAPageThatSaysSo) {
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  EXPECT_THAT(run_page(folder_), HasSubstr("metrics.jsonl is not there"));
  EXPECT_THROW(run_page(folder_ / "nowhere"), UserError);
}

TEST_F(RunPage, NamesFromARunAreNeverMarkup) {
  const std::string attack = "</script><script>alert(1)</script>\"' onload=alert(2)";
  telemetry::StepRecord measured = testing::fake_record(2, 1, true);
  for (auto& op : measured.ops) op.name = op.where = op.phase = attack;
  for (auto& message : measured.messages) message.axis = message.op = attack;
  for (auto& span : measured.spans) span.name = span.track = attack;
  overwrite("trace/record.measured.json", to_json(measured).dump());
  overwrite("trace/record.rehearsed.json", to_json(measured).dump());
  telemetry::RunSummary summary;
  summary.model_name = summary.family = summary.layout = summary.device = summary.dtype = attack;
  summary.exit_reason = summary.mfu_convention = summary.peak_source = summary.muster_version = attack;
  summary.model = {{attack, attack}};
  overwrite("summary.json", to_json(summary).dump());
  overwrite("job.toml", attack);
  const std::string page = run_page(folder_);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("\"' onload")));
  EXPECT_EQ(page.find("</script>"), page.rfind("</script>")) << "the page's own script only";
}

TEST_F(RunPage, ARepeatedStepCountsOnceAndATornLineIsSaid) {
  std::ofstream(folder_ / "metrics.jsonl", std::ios::app)
      << "{\"step\":60,\"loss\":9.25}\n{\"step\":61,\"loss\":1.5}\n{\"step\":62,\"lo";
  const RunFiles run = read_run(folder_);
  ASSERT_EQ(run.steps.size(), 61u);
  EXPECT_EQ(run.steps[59].loss, 9.25) << "the last time counts";
  EXPECT_EQ(run.unreadable_lines, 1);
  EXPECT_EQ(run.repeated_steps, 1);
  EXPECT_THAT(run_page(folder_), HasSubstr("run again after a resume"));
}

TEST_F(RunPage, ALongRunStaysSmall) {
  testing::write_fake_run(folder_, 5000);
  EXPECT_LT(run_page(folder_).size(), 1000000u);
}

}  // namespace
}  // namespace muster::report
