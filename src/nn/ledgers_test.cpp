// The room's tests count memory, so the ledgers must stand before the first tensor of any of them.
#include <gtest/gtest.h>

#include "device/ledger.h"

namespace {

class Ledgers : public ::testing::Environment {
  void SetUp() override { muster::device::install_ledgers(); }
};

const auto* const kLedgers = ::testing::AddGlobalTestEnvironment(new Ledgers);

}  // namespace
