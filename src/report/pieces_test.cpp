// The small pieces under the charts: escaping, scales and ticks, thinning, memory profiles, lanes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "report/fake_run.h"
#include "report/html.h"
#include "report/lanes.h"
#include "report/line_chart.h"
#include "report/memory_profile.h"
#include "report/scale.h"
#include "report/thin.h"

namespace muster::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Html, EscapesWhatCouldLeaveItsPlace) {
  EXPECT_EQ(escape("<b a=\"1\" b='2'>&"), "&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp;");
}

TEST(Ticks, AreRound) {
  EXPECT_THAT(linear_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(linear_ticks(-0.5, 1.2, 4), ElementsAre(-0.5, 0, 0.5, 1));
  EXPECT_FALSE(std::signbit(linear_ticks(-0.0, 10, 5)[0])) << "never -0";
  EXPECT_THAT(logarithmic_ticks(1, 1e4), ElementsAre(1, 10, 100, 1000, 10000));
  EXPECT_THAT(logarithmic_ticks(2, 30), ElementsAre(2, 5, 10, 20));
  EXPECT_THAT(byte_ticks(700. * 1048576, 5), ::testing::Contains(512. * 1048576));
  EXPECT_EQ(linear_ticks(3, 3, 5).size(), 1u);
}

TEST(Ticks, Text) {
  EXPECT_EQ(tick_text(12000), "12,000");
  EXPECT_EQ(tick_text(3e-4), "3e-4");
  EXPECT_EQ(tick_text(0.25), "0.25");
  EXPECT_EQ(tick_text(2.5e9), "2.5 B");
  EXPECT_EQ(tick_text(0), "0");
}

TEST(Scale, PlacesValues) {
  EXPECT_EQ((Scale{0, 10, 100, 200})(5), 150);
  EXPECT_NEAR((Scale{1, 100, 0, 2, true})(10), 1, 1e-12);
  EXPECT_EQ((Scale{3, 3, 0, 10})(3), 5) << "a range of no width";
}

TEST(Thin, KeepsTheEndsAndTheSpikes) {
  std::vector<Point> points;
  for (int x = 0; x < 100000; ++x) points.emplace_back(x, x == 54321 ? 1e6 : x == 12345 ? -7. : x % 10);
  const std::vector<Point> kept = thin(points, 500);
  EXPECT_LE(kept.size(), 500u);
  EXPECT_THAT(kept, ::testing::Contains(Point(54321, 1e6)));
  EXPECT_THAT(kept, ::testing::Contains(Point(12345, -7)));
  EXPECT_EQ(kept.front(), points.front());
  EXPECT_EQ(kept.back(), points.back());
  EXPECT_TRUE(std::is_sorted(kept.begin(), kept.end()));
  EXPECT_EQ(thin({{1, 2}, {3, 4}}, 500).size(), 2u);
}

TEST(Thin, ByLargest) {
  EXPECT_THAT(thin_by_largest({1, 9, 3, 4, 2, 8}, 3), ElementsAre(1, 3, 5));
  EXPECT_TRUE(thin_by_largest({}, 3).empty());
}

TEST(LineChart, NonFiniteIsAGapAndNeverInThePicture) {
  LineChart chart;
  chart.series = {{"loss", "series-1", {{1, 3}, {2, NAN}, {3, INFINITY}, {4, 2}, {5, 1}}, false}};
  const std::string drawn = line_chart(chart);
  const std::string path = drawn.substr(drawn.find("class=\"line"), 200);
  EXPECT_EQ(std::count(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(path.find("/>")), 'M'), 2)
      << path;
  EXPECT_THAT(path, Not(HasSubstr("nan")));
  EXPECT_THAT(path, Not(HasSubstr("inf")));
}

TEST(LineChart, OfNothingIsAnEmptyFrame) {
  LineChart chart;
  chart.series = {{"loss", "series-1", {}, false}};
  EXPECT_THAT(line_chart(chart), HasSubstr("<svg"));
  chart.logarithmic_x = chart.logarithmic_y = true;
  EXPECT_THAT(line_chart(chart), Not(HasSubstr("nan")));
}

TEST(MemoryProfile, ThePeakSurvivesThinning) {
  const telemetry::StepRecord record = testing::fake_record(6, 2, true);
  const MemoryProfile profile = memory_profile(record, 40);
  ASSERT_LE(profile.positions.size(), 40u);
  double highest = 0;
  for (size_t index = 0; index < profile.positions.size(); ++index) {
    double sum = 0;
    for (const Layer& layer : profile.layers)
      if (layer.css_class != "memory-scratch") sum += layer.values[index];
    highest = std::max(highest, sum);
  }
  EXPECT_EQ(highest, static_cast<double>(find_peak(record).bytes));
  EXPECT_EQ(profile.peak.y, highest);
  EXPECT_TRUE(std::is_sorted(profile.positions.begin(), profile.positions.end()));
  EXPECT_LE(profile.positions.back(), profile.x_high);
}

TEST(MemoryProfile, PlacesFallIntoTheirOperators) {
  telemetry::StepRecord record;
  record.memory = {{1, telemetry::Category::activations},
                   {1, telemetry::Category::activations},
                   {1, telemetry::Category::activations},
                   {1, telemetry::Category::activations}};
  record.ops = {{"a", "", "forward", 0, 0, 0, 0, 1}, {"b", "", "forward", 0, 0, 0, 0, 3}};
  EXPECT_THAT(memory_profile(record).positions, ElementsAre(0, 0, 1, 1.5, 2));
  record.ops.clear();
  EXPECT_THAT(memory_profile(record).positions, ElementsAre(0, 1, 2, 3, 4)) << "by event";
}

TEST(Lanes, NarrowBarsAreDrawnTogether) {
  Lane lane{"operators", {}};
  for (int index = 0; index < 10000; ++index)
    lane.bars.push_back({index * 1e-4, index * 1e-4 + 1e-4, "op", "phase-forward", ""});
  lane.bars.push_back({1, 2, "long", "phase-backward", ""});
  const std::string drawn = lanes({lane}, 0, 2);
  EXPECT_THAT(drawn, HasSubstr("10000 short events"));
  EXPECT_LT(drawn.size(), 5000u);
}

}  // namespace
}  // namespace muster::report
