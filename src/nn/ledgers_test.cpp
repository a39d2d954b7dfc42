// The room's tests count memory, so the ledgers must stand before the first tensor of any of them.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "device/ledger.h"

namespace {

class Ledgers : public ::testing::Environment {
  void SetUp() override {
    muster::device::install_ledgers();
    at::set_num_threads(1);  // a test that wants more asks; idle threads of libgomp spin
  }
};

const auto* const kLedgers = ::testing::AddGlobalTestEnvironment(new Ledgers);

}  // namespace
