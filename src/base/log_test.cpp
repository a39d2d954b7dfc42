#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace muster {
namespace {

std::string read_all(int fd, size_t bytes) {
  std::string text(bytes, 0);
  const ssize_t got = ::read(fd, text.data(), text.size());
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

// RELIABILITY scenario 47: a pipe whose reader stands still takes some lines and keeps nobody waiting.
TEST(Log, S47_DropsWhatNobodyTakesAndSaysHowMuch) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Log log("rank 0", LogLevel::info, ends[1]);
  constexpr int64_t kLines = 10'000;
  for (int64_t line = 0; line < kLines; ++line) log.info("line {}", line);
  const std::string held = read_all(ends[0], 1 << 20);
  const int64_t taken = std::ranges::count(held, '\n');
  EXPECT_GT(taken, 100);
  EXPECT_LT(taken, kLines);
  log.info("the next");
  EXPECT_EQ(read_all(ends[0], 1 << 20),
            fmt::format("warning: {} log lines were dropped here: nobody took them\n[rank 0] the next\n",
                        kLines - taken));
  log.info("{}", std::string(200'000, 'x'));  // longer than a pipe holds
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace muster
