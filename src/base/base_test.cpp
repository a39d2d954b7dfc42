#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/random.h"
#include "base/table.h"
#include "base/units.h"

namespace muster {
namespace {

TEST(Random, PhiloxMatchesThePublishedVectors) {
  // Known-answer vectors of Salmon et al.'s reference distribution: philox4x32-10, counter and key of zeros
  // and ones.
  EXPECT_EQ(philox({0, 0}, 0, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff}, ~uint64_t{0}, ~uint64_t{0}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Random, PermutationIsABijectionAndDependsOnItsKey) {
  for (uint64_t size : {1, 2, 3, 12, 1000}) {
    std::set<uint64_t> seen;
    for (uint64_t index = 0; index < size; ++index)
      seen.insert(permute_index(index, size, random_key(1, "a")));
    EXPECT_EQ(seen.size(), size);
    EXPECT_EQ(*seen.rbegin(), size - 1);
  }
  int moved = 0;
  for (uint64_t index = 0; index < 1000; ++index)
    moved += permute_index(index, 1000, random_key(1, "a")) != permute_index(index, 1000, random_key(1, "b"));
  EXPECT_GT(moved, 900);
}

TEST(Units, TextBothWays) {
  EXPECT_EQ(parse_bytes("10 GiB", "f"), 10 * GiB);
  EXPECT_EQ(parse_bytes("25MB", "f"), 25'000'000);
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_exact(-1234567), "-1,234,567");
  EXPECT_THROW(parse_bytes("ten", "f"), UserError);
}

TEST(Table, AlignsNumbersToTheRight) {
  Table table({"name", "bytes"});
  table.add({"a", "1"});
  table.add({"bb", "1000"});
  EXPECT_EQ(table.text(), "name  bytes\n----  -----\na         1\nbb     1000\n");
}

TEST(Json, RefusesDepthAndDuplicates) {
  EXPECT_EQ(parse_json(R"({"a":[1]})", "t")["a"][0], 1);
  EXPECT_THROW(parse_json(R"({"a":1,"a":2})", "t"), WorldError);
  EXPECT_THROW(parse_json(std::string(100000, '['), "t"), WorldError);
  EXPECT_THROW(parse_json("{} x", "t"), WorldError);
  EXPECT_THROW(parse_json("[1e505]", "t"), WorldError);
}

TEST(Errors, ProblemsComeTogether) {
  Problems problems;
  problems.add("a.b", "1", "must be 2", "set it to 2");
  problems.gather([] { throw UserError({"c", "", "is missing", ""}); });
  try {
    problems.throw_if_any();
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "a.b = 1: must be 2; set it to 2\nc: is missing");
  }
}

}  // namespace
}  // namespace muster
