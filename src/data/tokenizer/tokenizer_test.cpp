#include "data/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "data/testing.h"
#include "data/tokenizer/merges.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/utf8.h"

namespace muster::data {
namespace {

using ::testing::HasSubstr;

const std::string kGolden = SOURCE_ROOT "/tests/golden/tokenizer/";

std::string text_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  return tokenizer.decode(ids);
}

std::vector<std::string> golden_texts() {
  std::ifstream file(kGolden + "corpus.jsonl");
  std::vector<std::string> texts;
  for (std::string line; std::getline(file, line);) texts.push_back(parse_json(line, "corpus")["text"]);
  return texts;
}

std::vector<std::vector<int32_t>> golden_ids(const std::string& name) {
  std::ifstream file(kGolden + name + ".ids");
  std::vector<std::vector<int32_t>> all;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    all.emplace_back(std::istream_iterator<int32_t>(words), std::istream_iterator<int32_t>());
  }
  return all;
}

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Tokenizer> tokenizer_ = load_tokenizer(kGolden + GetParam() + ".json");
};

TEST_P(Golden, GivesTheIdsOfThePackageAndTheTextBack) {
  const std::vector<std::string> texts = golden_texts();
  const std::vector<std::vector<int32_t>> expected = golden_ids(GetParam());
  ASSERT_GT(texts.size(), 200u);
  ASSERT_EQ(texts.size(), expected.size());
  const auto encoder = tokenizer_->encoder();
  for (size_t at = 0; at < texts.size(); ++at) {
    std::vector<int32_t> ids;
    encoder->encode(texts[at], ids);
    EXPECT_EQ(ids, expected[at]) << "text " << at << ": " << texts[at];
    EXPECT_EQ(tokenizer_->decode(ids), texts[at]);
  }
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Golden, ::testing::Values("gpt2", "llama3"));

TEST(Tokenizers, KnowWhereTextBeginsAndEnds) {
  const auto gpt2 = load_tokenizer(kGolden + "gpt2.json"), llama3 = load_tokenizer(kGolden + "llama3.json");
  EXPECT_EQ(text_of(*gpt2, {*gpt2->end_of_text()}), "<|endoftext|>");
  EXPECT_FALSE(gpt2->begin_of_text());
  EXPECT_EQ(text_of(*llama3, {*llama3->begin_of_text()}), "<|begin_of_text|>");
  EXPECT_EQ(text_of(*llama3, {*llama3->end_of_text()}), "<|end_of_text|>");
  EXPECT_EQ(gpt2->vocabulary(), 3000);
  EXPECT_EQ(llama3->vocabulary(), 3503);  // 3500, and three added behind them
  EXPECT_THROW(text_of(*gpt2, {3000}), WorldError);
}

TEST(Tokenizers, BytesAreTheirOwnIds) {
  const auto bytes = load_tokenizer("bytes");
  std::vector<int32_t> ids;
  bytes->encoder()->encode("a\xff", ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{97, 255}));
  EXPECT_EQ(bytes->decode(ids), "a\xff");
  EXPECT_THROW(text_of(*bytes, {256}), WorldError);
}

TEST(Tokenizers, RefuseTextThatIsNotUtf8) {
  const auto gpt2 = load_tokenizer(kGolden + "gpt2.json");
  std::vector<int32_t> ids;
  try {
    gpt2->encoder()->encode("abc\xF4\x28", ids);
    FAIL();
  } catch (const WorldError& error) {
    EXPECT_THAT(error.what(), HasSubstr("byte 3 (0xF4) is not UTF-8"));
  }
}

TEST(Tokenizers, AMillionLettersInOneWordTakeNoTimeToSpeakOf) {
  const auto gpt2 = load_tokenizer(kGolden + "gpt2.json");
  std::vector<int32_t> ids;
  std::string word;
  for (size_t at = 0; at < 1'000'000; ++at) word += static_cast<char>('a' + at * at % 26);
  gpt2->encoder()->encode(word, ids);  // quadratic merging would outlast the test's time limit
  EXPECT_EQ(gpt2->decode(ids), word);
}

TEST(Merges, LowestRankFirstAndLeftmostFirst) {
  Merges merges;
  merges.add(1, 2, 12);
  merges.add(1, 1, 11);
  merges.add(11, 12, 99);
  std::vector<int32_t> out;
  merges.apply(std::vector<int32_t>{1, 1, 1, 1, 2}, out);
  EXPECT_EQ(out, (std::vector<int32_t>{11, 1, 12}));
  out.clear();
  merges.apply(std::vector<int32_t>{1, 1, 1, 2}, out);
  EXPECT_EQ(out, (std::vector<int32_t>{99}));
}

TEST(Utf8, AcceptsAndRefusesAsTheStandardDoes) {
  EXPECT_FALSE(first_malformed("plain, ü, 漢, \U0001F600, \U0010FFFF"));
  const std::vector<std::pair<std::string, size_t>> malformed = {
      {"a\x80", 1},        {"\xC0\x80", 0},         {"\xC1\xBF", 0},         {"\xE0\x9F\xBF", 0},
      {"\xED\xA0\x80", 0}, {"\xF0\x8F\xBF\xBF", 0}, {"\xF4\x90\x80\x80", 0}, {"\xF5\x80\x80\x80", 0},
      {"12345678\xC3", 8}, {"ab\xE2\x82", 2},       {"\xF4\x28", 0}};
  for (const auto& [text, at] : malformed) EXPECT_EQ(first_malformed(text), at) << text;
}

TEST(Pattern, SpacesAreSpelledOut) {
  EXPECT_THAT(spell_out_spaces(R"(\s[^\s\p{L}]\\s[[:alpha:]\s])"),
              ::testing::MatchesRegex(R"(\[.x.9.*3000.\]\[\^.x.9.*3000..p.L.\]..s\[\[:alpha:\].x.9.*)"));
}

TEST(Pattern, AnEvilExpressionIsStopped) {
  const Pattern evil("(?:a+)+$");
  Pattern::Search search(evil);
  size_t begin, end;
  EXPECT_THROW(search.find(std::string(5000, 'a') + "b", 0, begin, end), WorldError);
  EXPECT_THROW(Pattern("("), UserError);
  EXPECT_THROW(Pattern(std::string(100000, 'a')), UserError);
  EXPECT_THROW(Pattern(std::string(5000, '(') + std::string(5000, ')')), UserError);
}

class TokenizerFileTest : public TempFolder {
 protected:
  // What is said of the golden GPT-2 file after a change.
  std::string refusal(const std::function<void(Json&)>& change) const {
    Json json = parse_json(read_text(kGolden + "gpt2.json"), "golden");
    change(json);
    write("t.json", json.dump());
    try {
      load_tokenizer(file("t.json").string());
      return "accepted";
    } catch (const UserError& error) {
      return error.what();
    }
  }
};

TEST_F(TokenizerFileTest, WhatWouldChangeIdsAndIsNotReadIsRefused) {
  EXPECT_EQ(refusal([](Json&) {}), "accepted");
  EXPECT_THAT(refusal([](Json& json) {
                json["normalizer"] = {{"type", "NFC"}};
              }),
              HasSubstr("sets \"normalizer\""));
  EXPECT_THAT(refusal([](Json& json) { json["model"]["dropout"] = 0.1; }), HasSubstr("dropout"));
  EXPECT_THAT(refusal([](Json& json) { json["model"]["type"] = "Unigram"; }), HasSubstr("is not a BPE"));
  EXPECT_THAT(refusal([](Json& json) { json["added_tokens"][0]["lstrip"] = true; }), HasSubstr("lstrip"));
  EXPECT_THAT(refusal([](Json& json) { json["pre_tokenizer"]["type"] = "Metaspace"; }),
              HasSubstr("ByteLevel"));
  EXPECT_THAT(refusal([](Json& json) { json["pre_tokenizer"]["add_prefix_space"] = true; }),
              HasSubstr("add_prefix_space"));
}

TEST_F(TokenizerFileTest, AFileThatLiesIsRefused) {
  EXPECT_THAT(refusal([](Json& json) { json["model"]["vocab"]["new"] = -1; }), HasSubstr("an id from 0"));
  EXPECT_THAT(refusal([](Json& json) { json["model"]["vocab"]["new"] = int64_t{1} << 40; }),
              HasSubstr("an id from 0"));
  EXPECT_THAT(refusal([](Json& json) { json["model"]["vocab"]["new"] = 7; }), HasSubstr("gives id 7 twice"));
  EXPECT_THAT(refusal([](Json& json) { json["model"]["merges"].push_back("no such"); }),
              HasSubstr("is no token"));
  EXPECT_THAT(refusal([](Json& json) { json["model"]["merges"].push_back(3); }),
              HasSubstr("must be a string"));
  EXPECT_THAT(refusal([](Json& json) { json["model"]["vocab"].erase("a"); }), HasSubstr("no token"));
  EXPECT_THAT(refusal([](Json& json) { json.erase("model"); }), HasSubstr("has no \"model\""));
  write("t.json", std::string(100000, '['));
  EXPECT_THROW(load_tokenizer(file("t.json").string()), UserError);
  EXPECT_THROW(load_tokenizer(file("none.json").string()), UserError);
}

TEST_F(TokenizerFileTest, AHugeIdAllocatesNothing) {
  EXPECT_EQ(refusal([](Json& json) { json["model"]["vocab"]["new"] = 2147483646; }), "accepted");
}

TEST_F(TokenizerFileTest, B076TheVocabularyCountsAddedTokens) {
  ASSERT_EQ(refusal([](Json& json) {
              for (int64_t id = 65530; id < 65540; ++id)
                json["added_tokens"].push_back({{"id", id}, {"content", fmt::format("<|{}|>", id)}});
            }),
            "accepted");
  const auto tokenizer = load_tokenizer(file("t.json").string());
  EXPECT_EQ(tokenizer->vocabulary(), 65540);
  std::vector<int32_t> ids;
  tokenizer->encoder()->encode("<|65539|>", ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{65539}));
}

TEST_F(TokenizerFileTest, TheEndTokenIsTheConfiguredOne) {
  write("tokenizer_config.json", R"({"eos_token": {"content": "<|stop|>"}})");
  ASSERT_EQ(refusal([](Json& json) {
              json["added_tokens"].push_back({{"id", 5000}, {"content", "<|stop|>"}});
            }),
            "accepted");
  EXPECT_EQ(load_tokenizer(file("t.json").string())->end_of_text(), 5000);
}

}  // namespace
}  // namespace muster::data
