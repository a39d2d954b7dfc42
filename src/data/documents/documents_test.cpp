#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "data/dataset.h"
#include "data/documents/reader.h"
#include "data/documents/tokenize.h"
#include "data/source.h"
#include "data/testing.h"

namespace muster::data {
namespace {

using ::testing::HasSubstr;

const std::string kGolden = SOURCE_ROOT "/tests/golden/tokenizer/";

class DocumentsTest : public TempFolder {
 protected:
  Place place(const std::string& name) const { return {file(name), "data.path"}; }

  std::vector<std::vector<int32_t>> documents(const std::string& name, const Tokenizer& tokenizer,
                                              const TokenizeOptions& options,
                                              TokenizeCounts* counts = nullptr) const {
    std::vector<std::vector<int32_t>> all(1);
    const IdSink sink{
        [&](std::span<const int32_t> ids) { all.back().insert(all.back().end(), ids.begin(), ids.end()); },
        [&] { all.emplace_back(); }};
    const TokenizeCounts counted = tokenize(place(name), tokenizer, options, sink);
    if (counts) *counts = counted;
    all.pop_back();
    return all;
  }
};

TEST_F(DocumentsTest, LinesOfEveryLengthAndEnding) {
  const std::string longer(3 << 20, 'x');
  write("a", "one\r\n\n" + longer + "\nlast");
  const auto reader = open_lines(place("a"));
  std::vector<std::string> lines;
  std::vector<int64_t> begins;
  for (Piece piece; reader->next(piece);) {
    lines.push_back(piece.text);
    begins.push_back(piece.begin);
    EXPECT_EQ(piece.line, std::ssize(lines));
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "", longer, "last"}));
  EXPECT_EQ(begins, (std::vector<int64_t>{0, 5, 6, 7 + (3 << 20)}));
}

TEST_F(DocumentsTest, TextIsCutBetweenWordsOnly) {
  const std::string text = "ab cd1 ef gh  ij k! lm";
  write("a", text);
  const auto pieces = [&](bool may_cut) {
    const auto reader = open_text(place("a"), may_cut, 1);
    std::vector<std::string> all;
    for (Piece piece; reader->next(piece);) all.push_back(piece.text);
    return all;
  };
  EXPECT_EQ(pieces(true), (std::vector<std::string>{"ab", " cd1 ef", " gh  ij", " k! lm"}));
  EXPECT_EQ(pieces(false), (std::vector<std::string>{text}));
}

TEST_F(DocumentsTest, CutTextHasTheIdsOfTheWhole) {
  std::string text;
  const auto lines = open_lines({kGolden + "corpus.jsonl", "f"});
  for (Piece piece; lines->next(piece);)
    if (piece.text != R"({"text": ""})") text += text_of_line(piece.text, "text") + " and so on \n ";
  while (std::ssize(text) < (2 << 20)) text += text;
  write("a", text);
  for (const char* name : {"gpt2.json", "llama3.json"}) {
    const auto tokenizer = load_tokenizer(kGolden + name);
    ASSERT_TRUE(tokenizer->may_cut_before_spaces());
    std::vector<int32_t> whole;
    tokenizer->encoder()->encode(text, whole);
    const auto cut = documents("a", *tokenizer, {.threads = 3});
    ASSERT_EQ(cut.size(), 1u);
    EXPECT_TRUE(cut[0] == whole) << name;
  }
}

TEST_F(DocumentsTest, JsonlIsOneDocumentALineWithItsEnd) {
  write("a.jsonl", "{\"text\":\"a\"}\n{\"id\":[1],\"text\":\"\\u00e9\\n\"}\n");
  const auto tokenizer = load_tokenizer(kGolden + "gpt2.json");
  const int32_t end = *tokenizer->end_of_text();
  const auto ended = documents("a.jsonl", *tokenizer, {.format = "jsonl"});
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].back(), end);
  EXPECT_EQ(tokenizer->decode(std::span(ended[1]).first(ended[1].size() - 1)), "é\n");
  const auto plain = documents("a.jsonl", *tokenizer, {.format = "jsonl", .end_each_document = false});
  EXPECT_EQ(plain[0].size() + 1, ended[0].size());
}

TEST_F(DocumentsTest, OrderDoesNotDependOnThreads) {
  std::string lines;
  for (int line = 0; line < 20000; ++line)
    lines += fmt::format("{{\"text\":\"{:*>{}}\"}}\n", line, 6 + line % 700);
  write("a.jsonl", lines);
  const auto tokenizer = load_tokenizer("bytes");
  const auto one = documents("a.jsonl", *tokenizer, {.format = "jsonl", .threads = 1});
  EXPECT_EQ(one.size(), 20000u);
  EXPECT_TRUE(one == documents("a.jsonl", *tokenizer, {.format = "jsonl", .threads = 4}));
}

TEST_F(DocumentsTest, B078ABadLineStopsWithItsPlaceOrIsSkippedAndCounted) {
  const std::pair<std::string, const char*> bad_lines[] = {
      {"{\"text\":\"c\"}{\"text\":\"C\"}", "JSON"},
      {"{\"text\":\"\xF4\x28\"}", "UTF-8"},
      {"{\"text\":\"\"}", "is empty"},
      {"{\"title\":\"c\"}", "has no \"text\""},
  };
  const auto tokenizer = load_tokenizer("bytes");
  for (const auto& [line, reason] : bad_lines) {
    const auto good = [](const char* text) { return fmt::format("{{\"text\":\"{}\"}}\n", text); };
    write("a.jsonl", good("a") + good("b") + line + "\n" + good("d") + good("e"));
    try {
      documents("a.jsonl", *tokenizer, {.format = "jsonl"});
      ADD_FAILURE() << line;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a.jsonl:3: "));
      EXPECT_THAT(error.what(), HasSubstr(reason));
    }
    TokenizeCounts counts;
    const auto kept = documents("a.jsonl", *tokenizer, {.format = "jsonl", .skip_bad_lines = true}, &counts);
    EXPECT_EQ(kept, (std::vector<std::vector<int32_t>>{{'a'}, {'b'}, {'d'}, {'e'}}));
    EXPECT_EQ(counts.documents, 4);
    EXPECT_EQ(counts.skipped_lines, 1);
  }
}

TEST_F(DocumentsTest, B078TheRunIsToldHowManyWereSkippedEachTime) {
  write("a.jsonl", "{\"text\":\"abcdef\"}\nnonsense\n{\"text\":\"ghijkl\"}\n");
  spec::Job request = job("a.jsonl", "jsonl", 3);
  EXPECT_THROW(prepare(request, Log("", LogLevel::error)), UserError);
  request.data.on_bad_line = "skip";
  for (int time = 0; time < 2; ++time) EXPECT_EQ(prepare(request, Log("", LogLevel::error)).skipped_lines, 1);
  const Dataset dataset = Dataset::open_training(request);
  std::vector<int32_t> ids(4);
  dataset.fill(1, ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{'d', 'e', 'f', 'g'}));
}

class CacheTest : public DocumentsTest {
 protected:
  spec::Job text_job() const {
    write("a.txt", "some text that is worth tokenizing, 12345 times");
    spec::Job text = job("a.txt", "text", 3);
    text.data.tokenizer = kGolden + "gpt2.json";
    return text;
  }
  // How often tokenizing had to be done, and the first ids.
  int prepared(const spec::Job& job) const {
    int times = 0;
    prepare(job, Log("", LogLevel::error), [&](int64_t, int64_t) { ++times; });
    return times;
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(file("cache/muster")))
      if (entry.path().extension() == ".ids") found.push_back(entry.path());
    return found;
  }
};

TEST_F(CacheTest, TokenizesOnceForATextATokenizerAndOptions) {
  spec::Job request = text_job();
  EXPECT_EQ(prepared(request), 1);
  EXPECT_EQ(prepared(request), 0);
  fs::copy_file(file("a.txt"), file("b.txt"));
  request.data.path = file("b.txt").string();
  EXPECT_EQ(prepared(request), 0) << "the same text under another name";
  request.data.tokenizer = kGolden + "llama3.json";
  EXPECT_EQ(prepared(request), 1);
  write("b.txt", "some text that is worth tokenizing, 12345 times!");
  EXPECT_EQ(prepared(request), 1);
  EXPECT_EQ(entries().size(), 3u);
}

TEST_F(CacheTest, ADamagedEntryIsMadeAgain) {
  const spec::Job request = text_job();
  ASSERT_EQ(prepared(request), 1);
  const fs::path entry = entries().at(0);
  const std::string sound = read_text(entry);
  for (size_t at = 0; at < sound.size(); ++at) {
    std::string damaged = sound;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write_text(entry, damaged);
    EXPECT_EQ(prepared(request), 1) << "byte " << at;
    EXPECT_EQ(read_text(entry), sound);
  }
  write_text(entry, sound.substr(0, sound.size() - 2));
  EXPECT_EQ(prepared(request), 1);
  write_text(entry, "");
  EXPECT_EQ(prepared(request), 1);
}

TEST_F(CacheTest, ManyRanksAtOnceTokenizeOnce) {
  const spec::Job request = text_job();
  std::atomic<int> times{0};
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 8; ++rank)
    ranks.emplace_back([&] {
      times += prepared(request);
      EXPECT_GT(Dataset::open_training(request).windows(), 1);
    });
  ranks.clear();
  EXPECT_EQ(times, 1);
}

TEST_F(CacheTest, AFailedFillLeavesNothing) {
  spec::Job request = text_job();
  write("a.txt", "abc\xF4\x28");
  EXPECT_THROW(prepared(request), UserError);
  EXPECT_TRUE(entries().empty());
  for (const auto& entry : fs::directory_iterator(file("cache/muster")))
    EXPECT_EQ(entry.path().extension(), ".lock");
}

TEST_F(CacheTest, ATextTooShortIsRefusedOnceItIsTokenized) {
  spec::Job request = text_job();
  request.data.sequence_length = 1000;
  EXPECT_THROW(prepared(request), UserError);
}

}  // namespace
}  // namespace muster::data
