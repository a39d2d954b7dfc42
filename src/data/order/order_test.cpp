#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "data/order/cursor.h"
#include "data/order/fair_schedule.h"
#include "data/order/mixture.h"
#include "data/order/window_order.h"

namespace muster::data {
namespace {

std::vector<int64_t> draw_windows(const WindowOrder& order, int64_t from, int64_t to) {
  std::vector<int64_t> windows;
  for (int64_t draw = from; draw < to; ++draw) windows.push_back(order.window(draw));
  return windows;
}

TEST(WindowOrder, EveryEpochIsAPermutationOfItsOwn) {
  const WindowOrder order(Order::shuffled, 1, "", 100);
  std::set<std::vector<int64_t>> epochs;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> windows = draw_windows(order, epoch * 100, epoch * 100 + 100);
    epochs.insert(windows);
    std::sort(windows.begin(), windows.end());
    std::vector<int64_t> all(100);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(windows, all);
  }
  EXPECT_EQ(epochs.size(), 3u);
  EXPECT_NE(draw_windows(order, 0, 100), draw_windows(WindowOrder(Order::shuffled, 2, "", 100), 0, 100));
}

TEST(WindowOrder, TenBillionSamplesCostNothingAtStart) {
  const int64_t windows = 10'000'000'000;
  const WindowOrder order(Order::shuffled, 1, "", windows);
  std::set<int64_t> seen;
  for (int64_t draw = 25 * windows; draw < 25 * windows + 1000; ++draw) {
    const int64_t window = order.window(draw);
    ASSERT_GE(window, 0);
    ASSERT_LT(window, windows);
    seen.insert(window);
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_GT(*seen.rbegin(), int64_t{1} << 32);
}

TEST(WindowOrder, SequentialWrapsAround) {
  EXPECT_EQ(draw_windows(WindowOrder(Order::sequential, 1, "", 3), 0, 7),
            (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0}));
}

// The samples of each update of a run of 12 samples, batch 4, 3 epochs, from a cursor on.
std::vector<std::vector<int64_t>> updates_from(Cursor cursor) {
  const WindowOrder order(Order::shuffled, 7, "", 12);
  std::vector<std::vector<int64_t>> updates;
  while (cursor.epoch(12) < 3) {
    updates.push_back(draw_windows(order, cursor.next_sample, cursor.next_sample + 4));
    cursor.advance(4);
  }
  return updates;
}

TEST(Cursor, B019SavedAtAnEpochsEndAndInsideTheNext) {
  const auto unbroken = updates_from({});
  ASSERT_EQ(unbroken.size(), 9u);
  for (const size_t saved : {3, 4}) {
    Cursor cursor = Cursor::before_step(static_cast<int64_t>(saved), 4);
    cursor.advance(4);
    const Cursor restored = cursor_from_json(parse_json(to_json(cursor).dump(), "saved"), "saved");
    const auto resumed = updates_from(restored);
    EXPECT_EQ(resumed, std::vector(unbroken.begin() + static_cast<ptrdiff_t>(saved), unbroken.end()));
  }
}

TEST(Cursor, B017CountsSamplesNotMicroBatches) {
  // Batches of 8: micro-batch 1, 4 accumulated, 2 ranks. Saved after update 3.
  Cursor cursor;
  for (int update = 1; update <= 3; ++update) cursor.advance(8);
  EXPECT_EQ(cursor.next_sample, 24);
  EXPECT_EQ(cursor, Cursor::before_step(4, 8));
  EXPECT_EQ(draw_windows(WindowOrder(Order::sequential, 1, "", 64), cursor.next_sample, 32),
            (std::vector<int64_t>{24, 25, 26, 27, 28, 29, 30, 31}));
}

TEST(Cursor, RefusesWhatIsNoCount) {
  for (const char* text :
       {"{}", "[]", "{\"next_sample\":-1}", "{\"next_sample\":1.5}", "{\"next_sample\":\"1\"}"})
    EXPECT_THROW(cursor_from_json(parse_json(text, "t"), "t"), WorldError) << text;
}

// Draws `draws` times and expects every prefix within one of the weights, and each set's draws in order.
void expect_fair(const std::vector<double>& weights, int64_t draws) {
  const FairSchedule schedule(whole_shares(weights, "f"));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> counts(weights.size(), 0);
  for (int64_t index = 0; index < draws; ++index) {
    const Draw draw = schedule.draw(index);
    ASSERT_EQ(draw.number, counts[static_cast<size_t>(draw.set)]++) << "at " << index;
    for (size_t set = 0; set < weights.size(); ++set) {
      const double ideal = weights[set] / sum * static_cast<double>(index + 1);
      ASSERT_LT(std::abs(static_cast<double>(counts[set]) - ideal), 1 + 1e-6)
          << "set " << set << " of " << index;
    }
  }
  EXPECT_EQ(schedule.counts(draws), counts);
}

TEST(FairSchedule, B074EveryPrefixIsWithinOneOfItsWeight) {
  expect_fair({0.001, 0.999}, 1000);
  expect_fair({2, 6}, 1000);
  expect_fair({0.5, 0.3, 0.2}, 3000);
  expect_fair({1, 1, 1}, 3000);
  expect_fair({0.6, 0.1, 0.1, 0.1, 0.05, 0.05}, 3000);
  expect_fair({0.123456789, 0.4, 0.3, 1e-5, 0.07}, 200000);
  expect_fair({123456789012.0, 98765432109.0, 5.0}, 200000);
}

TEST(FairSchedule, B074WeightsOfTwoAndSixAreAQuarterAndThree) {
  EXPECT_EQ(whole_shares({2, 6}, "f"), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(whole_shares({0.001, 0.999}, "f"), (std::vector<int64_t>{1, 999}));
  EXPECT_EQ(whole_shares({0.1, 0.2, 0.7}, "f"), (std::vector<int64_t>{1, 2, 7}));
  EXPECT_THROW(whole_shares({0, 0}, "f"), UserError);
  EXPECT_THROW(whole_shares({1, -1}, "f"), UserError);
  EXPECT_THROW(whole_shares({1, std::nan("")}, "f"), UserError);
  EXPECT_THROW(whole_shares({1, 1e-13}, "f"), UserError);
}

TEST(FairSchedule, AnyIndexIsReachedFromAnywhere) {
  const FairSchedule forward({123457, 300007, 11}), jumping({123457, 300007, 11});
  std::vector<Draw> draws;
  for (int64_t index = 0; index < 200000; ++index) draws.push_back(forward.draw(index));
  for (const int64_t index : {199999, 5, 70000, 65536, 65535, 131072, 0})
    EXPECT_EQ(jumping.draw(index), draws[static_cast<size_t>(index)]) << index;
  // A period later: the same set, its shares further on.
  const int64_t period = forward.period(), far = 1'000'000'000;
  EXPECT_EQ(jumping.draw(7 + far * period).set, draws[7].set);
  EXPECT_EQ(jumping.draw(7 + far * period).number, draws[7].number + far * (draws[7].set == 0   ? 123457
                                                                            : draws[7].set == 1 ? 300007
                                                                                                : 11));
}

TEST(Mixture, B082TheSwitchIsExactAlsoInsideABatch) {
  for (const int64_t at : {64, 60}) {
    const Mixture mixture({{"A", 1, 0}, {"A", 1, at}, {"B", 3, at}});
    int64_t drawn[2] = {0, 0};
    for (int64_t sample = 0; sample < at; ++sample) EXPECT_EQ(mixture.draw(sample), (Draw{0, sample}));
    for (int64_t sample = at; sample < at + 400; ++sample) {
      const Draw draw = mixture.draw(sample);
      EXPECT_EQ(draw.number, drawn[draw.set]++ + (draw.set == 0 ? at : 0));
    }
    EXPECT_EQ(drawn[0], 100);
    EXPECT_EQ(drawn[1], 300);
  }
}

TEST(Mixture, AWeightStandsUntilItIsChanged) {
  const Mixture mixture({{"A", 1, 0}, {"B", 1, 10}, {"A", 0, 20}});
  EXPECT_EQ(mixture.paths(), (std::vector<std::string>{"A", "B"}));
  int64_t from_a = 0;
  for (int64_t sample = 10; sample < 20; ++sample) from_a += mixture.draw(sample).set == 0;
  EXPECT_EQ(from_a, 5);
  for (int64_t sample = 20; sample < 30; ++sample) EXPECT_EQ(mixture.draw(sample), (Draw{1, sample - 15}));
}

TEST(Mixture, RefusesWhatHasNoMeaning) {
  using Sources = std::vector<spec::DataSource>;
  EXPECT_THROW(Mixture(Sources{}), UserError);
  EXPECT_THROW(Mixture(Sources{{"A", 1, 5}}), UserError);
  EXPECT_THROW(Mixture(Sources{{"A", 1, -1}}), UserError);
  EXPECT_THROW(Mixture(Sources{{"A", 1, 0}, {"A", 2, 0}}), UserError);
  EXPECT_THROW(Mixture(Sources{{"A", 0, 0}}), UserError);
}

}  // namespace
}  // namespace muster::data
