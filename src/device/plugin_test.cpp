#include "device/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace muster::device {
namespace {

// Without the plugin or a driver: a wrong request, told with what to do.
TEST(Plugin, has_a_gpu_or_is_a_wrong_request) {
  try {
    EXPECT_GT(cuda_plugin().device_count(), 0);
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
