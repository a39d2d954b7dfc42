#include "report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "report/fake_run.h"

namespace muster::report {
namespace {

fs::path fresh_folder(const char* name) {
  const fs::path folder = fs::path(::testing::TempDir()) / (std::string("muster_report_") + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

TEST(Report, WholePage) {
  const fs::path folder = fresh_folder("whole");
  testing::write_fake_run(folder, 600);
  EXPECT_TRUE(fs::exists(write_report(folder)));
}

}  // namespace
}  // namespace muster::report
