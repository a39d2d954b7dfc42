#include "spec/hardware/hardware.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"

namespace muster::spec {
namespace {

using testing::HasSubstr;

class HardwareFile : public testing::Test {
 protected:
  HardwareFile() { fs::create_directories(folder_ / "muster"); }
  ~HardwareFile() override { fs::remove_all(folder_); }

  std::string write(const std::string& text) const {
    write_text(folder_ / "muster/hardware.toml", text);
    return folder_ / "muster/hardware.toml";
  }
  std::string refusal(const std::string& text) const {
    try {
      load_hardware(write(text));
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  }

  fs::path folder_ = fs::temp_directory_path() / fmt::format("muster_hardware_{}", getpid());
};

TEST(Hardware, KnowsPublicDevices) {
  const Hardware h100 = load_hardware("h100-sxm");
  EXPECT_EQ(h100.name, "H100 SXM");
  EXPECT_EQ(h100.peak("bfloat16"), 989e12);
  EXPECT_EQ(h100.peak("float8"), 1979e12);
  EXPECT_EQ(h100.peak("float4"), std::nullopt);
  EXPECT_EQ(h100.memory_bytes, 80'000'000'000);
  EXPECT_EQ(h100.memory_bandwidth_bytes_per_second, 3350e9);
  EXPECT_EQ(h100.devices_per_node, 8);
  EXPECT_EQ(h100.scale_up.bandwidth_bytes_per_second, 450e9);
  EXPECT_EQ(h100.scale_out.bandwidth_bytes_per_second, 50e9) << "400 Gb/s";
  EXPECT_FALSE(h100.source.empty());
  EXPECT_EQ(load_hardware("H100 SXM").name, "H100 SXM");
}

TEST(Hardware, EveryFileReads) {
  const auto names = hardware_names();
  EXPECT_EQ(names.size(), 17u);
  for (const std::string& name : names) {
    const Hardware hardware = load_hardware(name);
    EXPECT_FALSE(hardware.source.empty()) << name;
    EXPECT_TRUE(hardware.peak("bfloat16")) << name;
  }
}

TEST(Hardware, AnUnknownNameListsTheKnown) {
  try {
    load_hardware("h1000");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.problems()[0].field, "hardware.name");
    EXPECT_THAT(error.problems()[0].remedy, HasSubstr("mi300x"));
  }
}

TEST_F(HardwareFile, LocalIsUnknownUntilMeasured) {
  const char* before = std::getenv("XDG_CONFIG_HOME");
  const std::string kept = before ? before : "";
  setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
  const Hardware unknown = load_hardware("local");
  write("name = 'mine'\n[peak_flops]\nfloat32 = 1e11\n");
  const Hardware measured = load_hardware("local");
  before ? setenv("XDG_CONFIG_HOME", kept.c_str(), 1) : unsetenv("XDG_CONFIG_HOME");
  EXPECT_EQ(unknown.peak("float32"), std::nullopt);
  EXPECT_EQ(unknown.memory_bytes, 0);
  EXPECT_EQ(measured.name, "mine");
  EXPECT_EQ(measured.peak("float32"), 1e11);
}

TEST_F(HardwareFile, RefusesWhatIsNoFigure) {
  EXPECT_EQ(refusal("name = 'x'\n"), "accepted");
  EXPECT_THAT(refusal("memory_bytes = 1\n"), HasSubstr("name: is missing"));
  EXPECT_THAT(refusal("name = 'x'\nmemory_bytes = -1\n"), HasSubstr("memory_bytes"));
  EXPECT_THAT(refusal("name = 'x'\nmemory_bytes = 1.5\n"), HasSubstr("whole number"));
  EXPECT_THAT(refusal("name = 'x'\n[peak_flops]\nfloat32 = inf\n"), HasSubstr("peak_flops.float32"));
  EXPECT_THAT(refusal("name = 'x'\n[peak_flops]\nint3 = 1e12\n"), HasSubstr("peak_flops.int3: no such key"));
  EXPECT_THAT(refusal("name = 'x'\n[scale_up]\nbandwidth = 1e12\n"), HasSubstr("scale_up.bandwidth"));
  EXPECT_THAT(refusal("name = 'x'\nscale_up = 3\n"), HasSubstr("must be a table"));
  EXPECT_THAT(refusal("name = \n"), HasSubstr("hardware.toml:1:"));
}

}  // namespace
}  // namespace muster::spec
