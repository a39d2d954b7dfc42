#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstring>

#include "base/error.h"
#include "checkpoint/testing.h"

namespace muster::checkpoint {
namespace {

using ::testing::HasSubstr;

std::string complaint(const fs::path& path) {
  return message_of([&] { SafetensorsFile file(path); });
}

TEST(Safetensors, GivesBackTheBytesItWasGiven) {
  const TestFolder folder;
  const std::string small = "abc", large = "0123456789abcdef", name = "quote\"\\ é";
  {
    SafetensorsWriter writer(folder / "a",
                             {{.name = "small", .dtype = DType::u8, .shape = {3}},
                              {.name = name, .dtype = DType::f64, .shape = {2, 1}},
                              {.name = "none", .dtype = DType::f32, .shape = {0}}},
                             {{"k", "v"}});
    EXPECT_EQ(writer.tensors()[0].name, name) << "larger elements lie first, and so are aligned";
    EXPECT_EQ(writer.tensors()[1].name, "none");
    writer.write(large.data(), 7);
    writer.write(large.data() + 7, 9);
    writer.write(small.data(), 3);
    writer.finish();
  }
  const SafetensorsFile file(folder / "a");
  EXPECT_EQ(file.metadata(), (Metadata{{"k", "v"}}));
  ASSERT_TRUE(file.find(name));
  std::string back(16, ' ');
  file.read(*file.find(name), 0, 16, back.data());
  EXPECT_EQ(back, large);
  file.read(*file.find("small"), 1, 2, back.data());
  EXPECT_EQ(back.substr(0, 2), "bc");
  EXPECT_EQ(file.find("none")->bytes(), 0);
  EXPECT_EQ(file.find("absent"), nullptr);
  EXPECT_THROW(file.read(*file.find("small"), 2, 2, back.data()), Bug);

  const std::string bytes = read_text(folder / "a");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u) << "data starts aligned";
}

TEST(Safetensors, AWriterKeepsItsPromises) {
  const TestFolder folder;
  const std::vector<TensorEntry> tensors = {{.name = "x", .dtype = DType::u8, .shape = {4}}};
  SafetensorsWriter writer(folder / "a", tensors, {});
  EXPECT_THROW(writer.finish(), Bug);
  EXPECT_THROW(writer.write("12345", 5), Bug);
}

TEST(Safetensors, RefusesALengthThatLies) {
  const TestFolder folder;
  const auto with_length = [&](uint64_t length) {
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    write_file(folder / "a", bytes + "{}");
    return complaint(folder / "a");
  };
  EXPECT_EQ(with_length(2), "");
  EXPECT_THAT(with_length(3), HasSubstr("/a: byte 0: a header of 3 bytes where at most 2 are possible"));
  EXPECT_THAT(with_length(~uint64_t{0}), HasSubstr("a header of 18446744073709551615 bytes"));
  EXPECT_THAT(with_length(uint64_t{1} << 63), HasSubstr("byte 0"));
  EXPECT_THAT(with_length(0), HasSubstr("must start with '{'"));
}

TEST(Safetensors, CapsTheHeaderOfALargeFile) {
  const TestFolder folder;
  const uint64_t length = 100'000'001;
  write_file(folder / "a", std::string(reinterpret_cast<const char*>(&length), 8));
  fs::resize_file(folder / "a", 200'000'000);  // sparse
  EXPECT_THAT(complaint(folder / "a"), HasSubstr("at most 100000000 are possible"));
}

TEST(Safetensors, RefusesFilesThatWereCutOrGrew) {
  const TestFolder folder;
  const std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  write_raw(folder / "a", header, 8);
  EXPECT_EQ(complaint(folder / "a"), "");
  write_raw(folder / "a", header, 7);
  EXPECT_THAT(complaint(folder / "a"), HasSubstr("bytes 0 to 8 lie outside the file's 7 bytes of data"));
  write_raw(folder / "a", header, 9);
  EXPECT_THAT(complaint(folder / "a"), HasSubstr("tensors end at byte 8 of 9"));
  write_file(folder / "a", "1234567");
  EXPECT_THAT(complaint(folder / "a"), HasSubstr("7 bytes are too few"));
  EXPECT_THAT(complaint(folder / "absent"), HasSubstr("No such file"));
}

TEST(Safetensors, OpensNothingButRegularFiles) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(complaint(folder / "pipe"), HasSubstr("is not a regular file"));
  EXPECT_THAT(complaint(folder.path()), HasSubstr("is not a regular file"));
}

}  // namespace
}  // namespace muster::checkpoint
