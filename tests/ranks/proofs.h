// What a job must prove over several ranks, for tests.
#pragma once
#include <gtest/gtest.h>

#include "tests/program.h"

namespace muster::test {

// Verifies a job over `procs` ranks and counts that nothing was left out.
inline void expect_every_proof(const std::string& command, int procs) {
  const Outcome outcome = muster("verify " + command + " --json --procs " + std::to_string(procs));
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const Json result = Json::parse(outcome.out);
  EXPECT_EQ(result["passed"], true);
  int64_t memory = 0, messages = 0, gradients = 0;
  for (const Json& check : result["checks"]) {
    EXPECT_EQ(check["passed"], true) << check;
    const auto name = check["name"].get<std::string>();
    memory += name.rfind("memory", 0) == 0;
    messages += name.rfind("communication", 0) == 0;
    gradients += name.rfind("gradient", 0) == 0;
  }
  EXPECT_EQ(memory, 9 * procs);
  EXPECT_EQ(messages, 2 * procs);
  EXPECT_GT(gradients, 20);
}

}  // namespace muster::test
