#include "spec/config/recompute.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/units.h"

namespace muster::spec {
namespace {

using Kind = Recompute::Kind;

TEST(ParseRecompute, KnowsEveryForm) {
  EXPECT_EQ(parse_recompute("none").kind, Kind::none);
  EXPECT_EQ(parse_recompute("selective").kind, Kind::selective);
  EXPECT_EQ(parse_recompute("full").kind, Kind::full);
  EXPECT_EQ(parse_recompute("every:3").kind, Kind::every);
  EXPECT_EQ(parse_recompute("every:3").every, 3);
  EXPECT_EQ(parse_recompute("budget:2GiB").kind, Kind::budget);
  EXPECT_EQ(parse_recompute("budget:2GiB").budget_bytes, 2 * GiB);
}

TEST(ParseRecompute, RefusesAllElseByName) {
  for (const char* text : {"", "Full", "every", "every:", "every:0", "every:-1", "every:2x", "every: 2",
                           "budget:", "budget:much", "budget:-1", "layers:2"})
    try {
      parse_recompute(text);
      ADD_FAILURE() << text;
    } catch (const UserError& error) {
      EXPECT_EQ(error.problems().at(0).field, "layout.recompute") << text;
    }
}

}  // namespace
}  // namespace muster::spec
