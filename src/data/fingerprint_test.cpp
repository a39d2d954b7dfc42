// RELIABILITY scenario 49: what of the data a resumed run looks at.
#include "data/fingerprint.h"

#include <fstream>

#include "base/error.h"
#include "base/units.h"
#include "data/testing.h"

namespace muster::data {
namespace {

class FingerprintTest : public TempFolder {
 protected:
  Fingerprint of(const std::string& name) const {
    const std::vector<Fingerprint> all = fingerprints(job(name, "uint16", 4));
    EXPECT_EQ(all.size(), 1u);
    return all.at(0);
  }
  bool differ(const std::string& one, const std::string& other) const {
    return of(one).hash != of(other).hash;
  }
};

TEST_F(FingerprintTest, TellsContentsAndNotNames) {
  const std::string text(3 * 1000 * 1000, 'a');
  write("a", text);
  write("same", text);
  EXPECT_EQ(of("a").bytes, 3'000'000);
  EXPECT_EQ(of("a").field, "data.path");
  EXPECT_EQ(of("a").path, file("a").string());
  EXPECT_FALSE(differ("a", "same"));
  for (size_t at : {size_t{0}, size_t{1'700'000}, text.size() - 1}) {
    std::string other = text;
    other[at] = 'b';
    write("other", other);
    EXPECT_TRUE(differ("a", "other")) << at;
  }
}

// Of a file that is larger than the samples, both ends and 62 places between.
TEST_F(FingerprintTest, SamplesALargeFile) {
  const int64_t bytes = 200 * MiB;
  for (const char* name : {"a", "other"}) {
    std::ofstream(file(name)).put('a');
    fs::resize_file(file(name), bytes);
  }
  EXPECT_FALSE(differ("a", "other"));
  for (int64_t at : {int64_t{5}, bytes - 1, (bytes - MiB) / 63 * 31 + MiB / 2}) {
    std::fstream out(file("other"), std::ios::in | std::ios::out);
    out.seekp(at);
    out.put('b');
    out.close();
    EXPECT_TRUE(differ("a", "other")) << at;
    std::fstream back(file("other"), std::ios::in | std::ios::out);
    back.seekp(at);
    back.put(at == 0 ? 'a' : '\0');
  }
  EXPECT_FALSE(differ("a", "other"));
}

TEST_F(FingerprintTest, CoversEveryFileThatDecidesTheIds) {
  write("a.txt", "one text");
  write("b.txt", "another text");
  write("tokenizer.json", "{}");
  spec::Job two = job("", "text", 4);
  two.data.sources = {{file("a.txt").string(), 1, 0}, {file("b.txt").string(), 1, 0}};
  two.data.tokenizer = file("tokenizer.json").string();
  const std::vector<Fingerprint> all = fingerprints(two);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].path, file("b.txt").string());
  EXPECT_EQ(all[2].field, "data.tokenizer");
  EXPECT_THROW(fingerprints(job("absent", "uint16", 4)), UserError);
}

}  // namespace
}  // namespace muster::data
