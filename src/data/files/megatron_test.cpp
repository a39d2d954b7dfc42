#include "data/files/megatron.h"

#include <gmock/gmock.h>

#include "data/order/window_order.h"
#include "data/testing.h"

namespace muster::data {
namespace {

using ::testing::HasSubstr;

TEST(Positions, B072BytePositionsAndSamplesOfVirtualDocuments) {
  constexpr int64_t kDocument = int64_t{1} << 30;
  Positions positions(IdType::u32);
  std::vector<int64_t> begins;
  for (int document = 0; document < 3; ++document) {
    begins.push_back(positions.next());
    positions.add(kDocument);
  }
  EXPECT_EQ(begins, (std::vector<int64_t>{0, 4294967296, 8589934592}));
  EXPECT_EQ(positions.next(), 12884901888);
  const int64_t windows = window_count(3 * kDocument, 1024);
  EXPECT_EQ(windows, 3145727);
  EXPECT_EQ(WindowOrder(Order::sequential, 1, "", windows).window(windows - 1) * 1024, 3221223424);
}

TEST(Positions, B072ABillionDocumentsForThreeEpochs) {
  constexpr int64_t kDocuments = 1'000'000'000;
  Positions positions(IdType::u32);
  for (int64_t document = 0; document < kDocuments; ++document) positions.add(1);
  EXPECT_EQ(positions.next(), 4 * kDocuments);
  const WindowOrder order(Order::shuffled, 1, "", window_count(kDocuments + 1, 1));
  for (int64_t draw = 0; draw < 3 * kDocuments; draw += 9'999'991) {
    ASSERT_GE(order.window(draw), 0);
    ASSERT_LT(order.window(draw), kDocuments);
  }
  EXPECT_EQ(order.epoch(3 * kDocuments - 1), 2);
}

class MegatronTest : public TempFolder {
 protected:
  Place place(const std::string& name) const { return {file(name), "data.path"}; }
  void write_pair(const std::string& name, std::vector<std::vector<int32_t>> documents,
                  int64_t largest) const {
    MegatronWriter writer(file(name), largest);
    for (const auto& document : documents) {
      writer.append(document);
      writer.end_document();
    }
    writer.commit();
  }
  std::string refusal(const std::string& name) const {
    try {
      open_megatron(place(name));
      return "opened";
    } catch (const UserError& error) {
      return error.what();
    }
  }
  void edit(const std::string& name, size_t at, std::string_view bytes) const {
    write(name, read_text(file(name)).replace(at, bytes.size(), bytes));
  }
};

TEST_F(MegatronTest, WritesWhatItReads) {
  write_pair("a", {{1, 2, 3}, {}, {4, 65535}}, 65535);
  for (const char* name : {"a", "a.bin", "a.idx"}) {
    const TokenFile ids = open_megatron(place(name));
    ASSERT_EQ(ids.ids(), 5);
    std::vector<int32_t> read(5);
    ids.read(0, read);
    EXPECT_EQ(read, (std::vector<int32_t>{1, 2, 3, 4, 65535}));
  }
  const MegatronSummary summary = check_megatron(place("a"));
  EXPECT_EQ(summary.documents, 3);
  EXPECT_EQ(summary.ids, 5);
  EXPECT_EQ(summary.type, IdType::u16);
}

TEST_F(MegatronTest, TheIndexIsByteForByteMegatrons) {
  write_pair("a", {{7, 8}, {9}}, 100);
  const std::string expected(
      "MMIDIDX\0\0"
      "\1\0\0\0\0\0\0\0"
      "\x08"
      "\2\0\0\0\0\0\0\0"
      "\3\0\0\0\0\0\0\0"
      "\2\0\0\0"
      "\1\0\0\0"
      "\0\0\0\0\0\0\0\0"
      "\4\0\0\0\0\0\0\0"
      "\0\0\0\0\0\0\0\0"
      "\1\0\0\0\0\0\0\0"
      "\2\0\0\0\0\0\0\0",
      34 + 24 + 24);
  EXPECT_EQ(read_text(file("a.idx")), expected);
  EXPECT_EQ(read_text(file("a.bin")), std::string("\7\0\x08\0\x09\0", 6));
}

TEST_F(MegatronTest, B076TheTypeFollowsTheTrueLargestId) {
  write_pair("wide", {{65539}}, 65539);
  const TokenFile wide = open_megatron(place("wide"));
  EXPECT_EQ(wide.type(), IdType::u32);
  int32_t id = 0;
  wide.read(0, {&id, 1});
  EXPECT_EQ(id, 65539);
  // What a type too narrow would have made of it is refused, not stored.
  MegatronWriter narrow(file("narrow"), 65529);
  EXPECT_EQ(narrow.bin().type(), IdType::u16);
  EXPECT_THROW(narrow.append(std::vector<int32_t>{65539}), Bug);
}

TEST_F(MegatronTest, B080ABadPairIsRefusedWhenOpened) {
  write_pair("a", {{1, 2, 3}, {4}}, 100);
  write_pair("b", {{1, 2}, {3, 4, 5}}, 100);
  const std::string bin = read_text(file("a.bin")), idx = read_text(file("a.idx"));

  write("a.bin", bin.substr(0, 7));
  EXPECT_THAT(refusal("a"), HasSubstr("has 7 bytes, and a.idx describes 8"));
  write("a.bin", bin + "x");
  EXPECT_THAT(refusal("a"), HasSubstr("has 9 bytes, and a.idx describes 8"));
  write("a.bin", bin);

  write("a.idx", read_text(file("b.idx")));
  EXPECT_THAT(refusal("a"), HasSubstr("has 8 bytes, and a.idx describes 10"));
  write("a.idx", idx);

  edit("a.idx", 0, std::string(9, '\0'));
  EXPECT_THAT(refusal("a"), HasSubstr("magic"));
  write("a.idx", idx);
  edit("a.idx", 9, "\2");
  EXPECT_THAT(refusal("a"), HasSubstr("is of version 2, and version 1 is read"));
  write("a.idx", idx);
  edit("a.idx", 17, "\7");
  EXPECT_THAT(refusal("a"), HasSubstr("type code 7"));
  write("a.idx", idx + "x");
  EXPECT_THAT(refusal("a"), HasSubstr("has 83 bytes, and its 2 sequences and 3 document bounds need 82"));
  write("a.idx", idx);
  EXPECT_EQ(refusal("a"), "opened");
}

TEST_F(MegatronTest, AHeaderThatLiesCostsNothing) {
  write_pair("a", {{1, 2, 3}}, 100);
  edit("a.idx", 18, "\xff\xff\xff\xff\xff\xff\xff\xff");
  EXPECT_THAT(refusal("a"), HasSubstr("more than its"));
}

TEST_F(MegatronTest, TheWholeIndexIsCheckedForOrder) {
  write_pair("a", {{1, 2, 3}, {4}, {5}}, 100);
  // The second sequence's position: one id too far.
  edit("a.idx", 34 + 12 + 8, "\x08");
  EXPECT_EQ(refusal("a"), "opened");
  EXPECT_THROW(check_megatron(place("a")), UserError);
}

TEST_F(MegatronTest, NegativeIdsAreRefusedWhenRead) {
  write_pair("a", {{1, 70000}}, 70000);
  edit("a.bin", 0, "\xff\xff\xff\xff");
  int32_t ids[2];
  EXPECT_THROW(open_megatron(place("a")).read(0, ids), WorldError);
}

}  // namespace
}  // namespace muster::data
