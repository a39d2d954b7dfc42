#include "checkpoint/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace muster::checkpoint {
namespace {

using ::testing::HasSubstr;

std::string complaint(const std::string& text, int64_t data_bytes = 8) {
  try {
    parse_safetensors_header(text, data_bytes, "f");
    return "";
  } catch (const WorldError& error) {
    EXPECT_EQ(error.kind(), WorldError::Kind::data);
    return error.what();
  }
}

// One tensor "x" with these fields.
std::string one(const std::string& fields) {
  return "{\"x\":{" + fields + "}}";
}
const std::string kGood = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";

TEST(SafetensorsHeader, ReadsTensorsInTheOrderOfTheirData) {
  const SafetensorsHeader header = parse_safetensors_header(
      R"({"__metadata__":{"format":"pt","note":""},
          "b":{"data_offsets":[4,10],"shape":[3,1],"dtype":"BF16"},
          "empty":{"dtype":"I64","shape":[0,5],"data_offsets":[4,4]},
          "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
      10, "f");
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].name, "empty");
  EXPECT_EQ(header.tensors[2].name, "b");
  EXPECT_EQ(header.tensors[2].shape, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(header.tensors[2].dtype, DType::bf16);
  EXPECT_EQ(header.tensors[2].bytes(), 6);
  EXPECT_EQ(header.metadata, (Metadata{{"format", "pt"}, {"note", ""}}));
  EXPECT_TRUE(parse_safetensors_header("{}", 0, "f").tensors.empty());
}

TEST(SafetensorsHeader, KnowsEveryDtype) {
  for (const auto& [name, bytes] : std::map<std::string, int>{{"F64", 8},
                                                              {"F32", 4},
                                                              {"F16", 2},
                                                              {"BF16", 2},
                                                              {"F8_E4M3", 1},
                                                              {"F8_E5M2", 1},
                                                              {"I64", 8},
                                                              {"I32", 4},
                                                              {"I16", 2},
                                                              {"I8", 1},
                                                              {"U8", 1},
                                                              {"BOOL", 1}})
    EXPECT_EQ(
        complaint(one(fmt::format(R"("dtype":"{}","shape":[3],"data_offsets":[0,{}])", name, 3 * bytes)),
                  3 * bytes),
        "")
        << name;
  EXPECT_THAT(complaint(one(R"("dtype":"F4","shape":[8],"data_offsets":[0,8])")),
              HasSubstr("f: tensor \"x\": dtype \"F4\" is none of F64, F32"));
}

TEST(SafetensorsHeader, RefusesWhatIsNotPaddedJson) {
  EXPECT_THAT(complaint(""), HasSubstr("f: byte 8: a header must start with '{'"));
  EXPECT_THAT(complaint(" {}"), HasSubstr("must start with '{'"));
  EXPECT_THAT(complaint("[]"), HasSubstr("must start with '{'"));
  EXPECT_THAT(complaint("{}\n"), HasSubstr("f: byte 10: a header must end with '}' and spaces"));
  EXPECT_THAT(complaint(std::string("{}\0", 3)), HasSubstr("must end with"));
  EXPECT_THAT(complaint("{} {}"), HasSubstr("f: byte 4"));
  EXPECT_THAT(complaint("{\"x\":}"), HasSubstr("f: byte 6"));
  EXPECT_THAT(complaint("{\"\xff\":{}}"), HasSubstr("invalid"));
}

TEST(SafetensorsHeader, RefusesDepthAtOnce) {
  EXPECT_THAT(complaint("{\"x\":" + std::string(1'000'000, '[') + "}"), HasSubstr("a list has no meaning"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"x\":";
  EXPECT_THAT(complaint(objects + "}"), HasSubstr("\"x\" is none of dtype, shape, data_offsets"));
  EXPECT_THAT(complaint(one(R"("dtype":"F32","shape":[[2]],"data_offsets":[0,8])")), HasSubstr("a list"));
}

TEST(SafetensorsHeader, RefusesKeysThatAreThereTwice) {
  EXPECT_THAT(complaint("{\"x\":{" + kGood + "},\"x\":{" + kGood + "}}"),
              HasSubstr("f: tensor \"x\": is there twice"));
  EXPECT_THAT(complaint(one(kGood + R"(,"dtype":"I32")")),
              HasSubstr("tensor \"x\": \"dtype\" is there twice"));
  EXPECT_THAT(complaint(R"({"__metadata__":{"a":"1","a":"2"}})", 0),
              HasSubstr("__metadata__: key \"a\" is there twice"));
  EXPECT_THAT(complaint(R"({"__metadata__":{},"__metadata__":{}})", 0),
              HasSubstr("__metadata__: is there twice"));
}

TEST(SafetensorsHeader, RefusesFieldsThatAreMissingUnknownOrOfAnotherKind) {
  EXPECT_THAT(complaint(one("")), HasSubstr("tensor \"x\": dtype is missing"));
  EXPECT_THAT(complaint(one(R"("dtype":"F32","shape":[2])")), HasSubstr("data_offsets is missing"));
  EXPECT_THAT(complaint(one(kGood + R"(,"strides":[1])")), HasSubstr("\"strides\" is none of"));
  EXPECT_THAT(complaint(R"({"x":[]})"), HasSubstr("a list has no meaning"));
  EXPECT_THAT(complaint(R"({"x":null})"), HasSubstr("null has no meaning"));
  EXPECT_THAT(complaint(one(R"("dtype":7)")), HasSubstr("a number has no meaning"));
  EXPECT_THAT(complaint(one(R"("dtype":["F32"])")), HasSubstr("a list has no meaning"));
  EXPECT_THAT(complaint(one(R"("shape":"2")")), HasSubstr("a string has no meaning"));
  EXPECT_THAT(complaint(one(R"("shape":[true])")), HasSubstr("a truth value has no meaning"));
  EXPECT_THAT(complaint(R"({"__metadata__":{"a":1}})", 0),
              HasSubstr("__metadata__: a number has no meaning"));
  EXPECT_THAT(complaint(R"({"__metadata__":{"a":{}}})", 0),
              HasSubstr("__metadata__: an object has no meaning"));
}

TEST(SafetensorsHeader, RefusesNumbersThatAreNoSizes) {
  EXPECT_THAT(complaint(one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])")), HasSubstr("negative"));
  EXPECT_THAT(complaint(one(R"("shape":[2.0])")), HasSubstr("2.0 is no whole number"));
  EXPECT_THAT(complaint(one(R"("shape":[9223372036854775808])")), HasSubstr("does not fit 63 bits"));
  EXPECT_THAT(complaint(one(R"("shape":[36893488147419103232])")),
              HasSubstr("is no whole number of 64 bits"));
  EXPECT_THAT(complaint(one(R"("shape":[1,1,1,1,1,1,1,1,1])")), HasSubstr("more than 8 dims"));
  EXPECT_THAT(complaint(one(R"("data_offsets":[0])")), HasSubstr("data_offsets has 1 numbers, not 2"));
  EXPECT_THAT(complaint(one(R"("dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,8])")),
              HasSubstr("tensor \"x\": its size overflows"))
      << "the product is 0 in 64 bits";
}

TEST(SafetensorsHeader, RefusesRangesThatDoNotCoverTheData) {
  const auto range = [](const char* name, int begin, int end) {
    return fmt::format(R"("{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", name,
                       std::max(0, end - begin), begin, end);
  };
  EXPECT_EQ(complaint("{" + range("x", 0, 3) + "," + range("y", 3, 8) + "}"), "");
  EXPECT_THAT(complaint("{" + range("x", 0, 4) + "," + range("y", 3, 8) + "}"),
              HasSubstr("tensor \"y\": starts at byte 3 of the data, where byte 4 is next: tensors overlap"));
  EXPECT_THAT(complaint("{" + range("x", 0, 3) + "," + range("y", 4, 8) + "}"), HasSubstr("leave a gap"));
  EXPECT_THAT(complaint("{" + range("x", 1, 8) + "}"), HasSubstr("leave a gap"));
  EXPECT_THAT(complaint("{" + range("x", 0, 7) + "}"), HasSubstr("tensors end at byte 7 of 8 bytes of data"));
  EXPECT_THAT(complaint("{}"), HasSubstr("tensors end at byte 0 of 8"));
  EXPECT_THAT(complaint("{" + range("x", 0, 9) + "}"), HasSubstr("lie outside the file's 8 bytes"));
  EXPECT_THAT(complaint("{" + range("x", 8, 0) + "}"), HasSubstr("lie outside"));
  EXPECT_THAT(complaint(one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])")),
              HasSubstr("its shape and dtype need 12 bytes, its data_offsets hold 8"));
}

TEST(SafetensorsHeader, BoundsNamesAndMetadata) {
  const auto named = [](const std::string& name) { return "{\"" + name + "\":{" + kGood + "}}"; };
  EXPECT_EQ(complaint(named(std::string(512, 'n'))), "");
  EXPECT_THAT(complaint(named(std::string(513, 'n'))), HasSubstr("a name of 513 bytes"));
  EXPECT_THAT(complaint(named("")), HasSubstr("a name of 0 bytes"));
  EXPECT_THAT(complaint(named("a\\u0000b")), HasSubstr("a control byte in its name"));
  EXPECT_THAT(complaint(R"({"__metadata__":{"a":")" + std::string(1 << 20, 'm') + "\"}}", 0),
              HasSubstr("more than 1048576 bytes"));
}

}  // namespace
}  // namespace muster::checkpoint
