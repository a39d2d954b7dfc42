#include "checkpoint/weight_files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "base/error.h"
#include "checkpoint/testing.h"
#include "checkpoint/weight_index.h"

namespace muster::checkpoint {
namespace {

using ::testing::HasSubstr;

const char* const kIndex = "model.safetensors.index.json";

// A folder of two shards, a and b, and its index.
struct Sharded : TestFolder {
  Sharded() {
    write_tensors(*this / "one.safetensors", {{"a", at::ones({2})}});
    write_tensors(*this / "two.safetensors", {{"b", at::ones({3})}});
    write_index(
        R"({"metadata":{"total_size":20},"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  }
  void write_index(const std::string& text) { write_file(*this / kIndex, text); }
  // Says that "b" lies in this file.
  void point_b_to(const std::string& file) {
    write_index(R"({"weight_map":{"a":"one.safetensors","b":")" + file + "\"}}");
  }
};

// Every refusal of this class is a UserError.
std::string complaint(const fs::path& path) {
  try {
    WeightFiles files(path);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(WeightFiles, OpensAFileAFolderOrShards) {
  const Sharded folder;
  EXPECT_TRUE(WeightFiles(folder / "one.safetensors").find("a"));
  const WeightFiles shards(folder.path());
  EXPECT_EQ(shards.files().size(), 2u);
  EXPECT_EQ(shards.find("b")->shape, std::vector<int64_t>{3});
  EXPECT_EQ(shards.find("b")->source, folder / "two.safetensors");
  EXPECT_FALSE(shards.find("c"));

  fs::remove(folder / kIndex);
  EXPECT_THAT(complaint(folder.path()),
              HasSubstr("neither model.safetensors nor model.safetensors.index.json"));
  fs::rename(folder / "one.safetensors", folder / "model.safetensors");
  EXPECT_TRUE(WeightFiles(folder.path()).find("a"));
  EXPECT_THAT(complaint(folder / "absent"), HasSubstr("there is no such file or folder"));
}

TEST(WeightFiles, ReportsEveryBadShardAtOnce) {
  Sharded folder;
  write_file(folder / "one.safetensors", "short");
  fs::remove(folder / "two.safetensors");
  const std::string said = complaint(folder.path());
  EXPECT_THAT(said, HasSubstr("one.safetensors: 5 bytes are too few"));
  EXPECT_THAT(said, HasSubstr("two.safetensors: No such file"));
}

TEST(WeightFiles, NoNameLeavesTheFolder) {
  Sharded folder;
  for (const char* name : {"../two.safetensors", "/etc/passwd", "sub/two.safetensors", "..", "", "two.bin",
                           ".safetensors", "a\\\\b.safetensors", "a\\u0000.safetensors"}) {
    folder.point_b_to(name);
    EXPECT_THAT(complaint(folder.path()), HasSubstr("weight_map: \"b\": ")) << name;
  }
}

TEST(WeightFiles, FollowsNoLinkOutOfTheFolder) {
  Sharded folder;
  fs::create_directory(folder / "outside");
  write_tensors(folder / "outside" / "b.safetensors", {{"b", at::ones({3})}});
  Sharded inner;
  fs::create_symlink(folder / "outside" / "b.safetensors", inner / "link.safetensors");
  inner.point_b_to("link.safetensors");
  EXPECT_THAT(complaint(inner.path()), HasSubstr("leads out of its folder"));

  folder.point_b_to("inward.safetensors");
  fs::create_symlink("two.safetensors", folder / "inward.safetensors");
  EXPECT_EQ(complaint(folder.path()), "");
  ASSERT_EQ(::mkfifo((folder / "pipe.safetensors").c_str(), 0600), 0);
  folder.point_b_to("pipe.safetensors");
  EXPECT_THAT(complaint(folder.path()), HasSubstr("is not a regular file"));
}

TEST(WeightFiles, ReadsASnapshotOfAHuggingFaceCache) {
  const TestFolder cache;
  fs::create_directories(cache / "blobs");
  fs::create_directories(cache / "snapshots/1234");
  write_tensors(cache / "blobs/abcd", {{"a", at::ones({2})}});
  fs::create_symlink("../../blobs/abcd", cache / "snapshots/1234/model.safetensors");
  EXPECT_TRUE(WeightFiles(cache / "snapshots/1234").find("a"));
  EXPECT_TRUE(WeightFiles(cache / "snapshots/1234/").find("a"));
}

TEST(WeightFiles, RefusesAnIndexThatItsShardsDoNotBearOut) {
  Sharded folder;
  folder.write_index(R"({"weight_map":{"a":"one.safetensors","c":"two.safetensors"}})");
  EXPECT_THAT(complaint(folder.path()), HasSubstr("weights = c: the index places it in two.safetensors"));
  folder.write_index(R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  write_tensors(folder / "two.safetensors", {{"a", at::ones({2})}, {"b", at::ones({3})}});
  EXPECT_THAT(complaint(folder.path()), HasSubstr("weights = a: is in two files"));
}

TEST(WeightIndex, RefusesMalformedText) {
  const auto complaint_of = [](const std::string& text) {
    return message_of([&] { parse_weight_index(text, "i"); });
  };
  EXPECT_THAT(complaint_of("{}"), HasSubstr("i: weight_map is missing or empty"));
  EXPECT_THAT(complaint_of("[]"), HasSubstr("weight_map is missing or empty"));
  EXPECT_THAT(complaint_of(R"({"x":{"weight_map":{"a":"b.safetensors"}}})"), HasSubstr("missing or empty"));
  EXPECT_THAT(complaint_of(R"({"weight_map":"a"})"), HasSubstr("weight_map must be an object"));
  EXPECT_THAT(complaint_of(R"({"weight_map":["a"]})"), HasSubstr("a list is no file name"));
  EXPECT_THAT(complaint_of(R"({"weight_map":{"a":1}})"), HasSubstr("\"a\": a number is no file name"));
  EXPECT_THAT(complaint_of(R"({"weight_map":{"a":{}}})"), HasSubstr("an object is no file name"));
  EXPECT_THAT(complaint_of(R"({"weight_map":{"a":"f.safetensors","a":"f.safetensors"}})"),
              HasSubstr("\"a\" is there twice"));
  EXPECT_THAT(complaint_of(R"({"weight_map":{},"weight_map":{}})"), HasSubstr("weight_map is there twice"));
  EXPECT_THAT(complaint_of("{\"x\":" + std::string(1'000'000, '[')), HasSubstr("nested deeper than 8"));
  EXPECT_THAT(complaint_of("{"), HasSubstr("i: byte "));
}

TEST(WeightIndex, AMillionNamesAreReadInLinearTime) {
  std::string text = "{\"weight_map\":{";
  for (int i = 0; i < 1'000'000; ++i) text += fmt::format("{}\"{}\":\"f.safetensors\"", i ? "," : "", i);
  EXPECT_EQ(parse_weight_index(text + "}}", "i").files_by_tensor.size(), 1'000'000u);
}

}  // namespace
}  // namespace muster::checkpoint
