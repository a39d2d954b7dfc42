// `muster doctor` draws who talks to whom: its closed forms against the messages of the program itself.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>

#include "tests/program.h"

namespace muster::test {
namespace {

using ByKind = std::map<std::pair<std::string, std::string>, int64_t>;

Json doctor(const std::string& arguments) {
  const Outcome outcome = muster("doctor " + arguments + " --json");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  return Json::parse(outcome.out)["talks"];
}

ByKind told_by_doctor(const std::string& arguments) {
  ByKind bytes;
  const Json talks = doctor(arguments);
  for (const Json& talk : talks)
    for (const Json& message : talk["messages"]) bytes[{talk["axis"], message["op"]}] = message["bytes"];
  return bytes;
}

ByKind rehearsed(const std::string& arguments, int world) {
  const Outcome outcome = muster(fmt::format("rehearse {} --json --world {}", arguments, world));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  ByKind bytes;
  const Json rehearsal = Json::parse(outcome.out);
  for (const Json& message : rehearsal["messages"])
    bytes[{message["axis"], message["op"]}] = message["bytes"];
  return bytes;
}

struct Layout {
  int world;
  const char* family;
  const char* settings;
};

class DoctorMessages : public ::testing::TestWithParam<Layout> {};

TEST_P(DoctorMessages, AreTheRehearsalsToTheByte) {
  const auto& [world, family, settings] = GetParam();
  const Folder folder;
  const std::string job = small_job(folder, family) + " " + settings;
  EXPECT_EQ(told_by_doctor(fmt::format("{} --procs {}", job, world)), rehearsed(job, world)) << settings;
}

INSTANTIATE_TEST_SUITE_P(
    All, DoctorMessages,
    ::testing::Values(
        Layout{4, "llama", ""}, Layout{2, "gpt2", "--set layout.tensor=2"},
        Layout{8, "llama", "--set layout.tensor=4 --set numerics.compute=float64"},
        Layout{4, "gpt2", "--set layout.tensor=2 --set layout.sequence_parallel=true"},
        Layout{4, "llama",
               "--set layout.tensor=4 --set layout.sequence_parallel=true --set layout.recompute=full"},
        Layout{2, "llama", "--set layout.tensor=2 --set layout.recompute=every:2"},
        Layout{4, "llama", "--set layout.context=4"},
        Layout{4, "llama", "--set layout.context=4 --set layout.recompute=selective"},
        Layout{8, "llama",
               "--set layout.context=2 --set layout.tensor=2 --set layout.context_method=all_to_all"},
        Layout{4, "gpt2",
               "--set layout.context=4 --set layout.context_method=all_to_all --set layout.recompute=full"},
        Layout{2, "llama", "--set layout.zero=1"}, Layout{2, "llama", "--set layout.zero=2"},
        Layout{2, "llama", "--set layout.zero=2 --set layout.reduce_every=step"},
        Layout{2, "llama", "--set layout.zero=3"},
        Layout{2, "llama", "--set layout.zero=3 --set layout.prefetch=0"},
        Layout{2, "llama", "--set layout.zero=3 --set layout.prefetch=2"},
        Layout{2, "llama", "--set layout.zero=3 --set layout.keep_after_forward=true"},
        Layout{8, "llama", "--set layout.zero=3 --set layout.replicate=2 --set layout.context=2"},
        Layout{4, "llama", "--set layout.zero=2 --set layout.replicate=2"}));

TEST(DoctorLinks, AreThoseThatTheHardwareFileNames) {
  const Folder folder;
  const Json talks = doctor(small_job(folder, "llama") +
                            " --procs 16 --set layout.tensor=4 --set hardware.name=h100-sxm "
                            "--set training.global_batch_size=16");
  ASSERT_EQ(talks.size(), 2u) << talks;
  EXPECT_EQ(talks[0]["axis"], "tensor");
  EXPECT_EQ(talks[0]["link"], "scale_up");
  EXPECT_EQ(talks[0]["groups"][1], (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(talks[1]["axis"], "data");
  EXPECT_EQ(talks[1]["link"], "scale_out") << "ranks 0, 4, 8 and 12 are of two nodes of eight";
  EXPECT_GT(talks[0]["bandwidth_bytes_per_second"], talks[1]["bandwidth_bytes_per_second"]);
  const Json unknown = doctor(small_job(folder, "llama") + " --procs 2 --set layout.recompute=budget:1MiB");
  EXPECT_TRUE(unknown[0]["messages"].is_null()) << "no closed form";
}

TEST(DoctorLinks, AreDrawn) {
  const Folder folder;
  const Outcome outcome = muster("doctor " + small_job(folder, "llama") +
                                 " --procs 4 --set layout.tensor=2 --set hardware.name=h100-sxm");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("[0 1] [2 3]"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("inside a node, 450 GB/s"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace muster::test
