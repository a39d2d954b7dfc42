#include "device/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace muster::device {
namespace {

// Here there is no plugin (or, in a build with one, no driver): a wrong request, told with what to do.
TEST(Plugin, that_cannot_be_used_is_a_wrong_request) {
  try {
    cuda_plugin();
    FAIL() << "this machine has a GPU";
  } catch (const UserError& error) {
    ASSERT_EQ(error.problems().size(), 1u);
    const Problem& problem = error.problems().front();
    EXPECT_EQ(problem.field, "training.device");
    EXPECT_EQ(problem.value, "cuda");
    EXPECT_THAT(problem.rule, testing::StartsWith("needs"));
    EXPECT_FALSE(problem.remedy.empty());
  }
}

}  // namespace
}  // namespace muster::device
